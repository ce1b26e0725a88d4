import type { Dice } from '../../../src/demo/test-mint/dice.ts';

/** Bytes and characters that parsers stumble over, for wherever text can stand. */

/** A piece of text of up to `maxLength` characters. */
export function strangeText(dice: Dice, maxLength: number): string {
  const length = 1 + Math.floor(dice.roll() ** 3 * maxLength);
  const alphabet = dice.pick(ALPHABETS);
  return alphabet.repeat(Math.ceil(length / alphabet.length)).slice(0, length);
}

/** The same text with one thing wrong with it. */
export function damaged(dice: Dice, text: string): string {
  const place = Math.floor(dice.roll() * text.length);
  const [before, after] = [text.slice(0, place), text.slice(place)];
  return dice.pick<() => string>([
    () => before,
    () => after,
    () => before + after.slice(1),
    () => before + strangeText(dice, 20) + after,
    () => before + String.fromCharCode((text.charCodeAt(place) ^ 1) & 0x7f) + after.slice(1),
    () => text + text,
    () => text.split('').reverse().join(''),
    () => (text === text.toUpperCase() ? text.toLowerCase() : text.toUpperCase()),
    () => '',
  ])();
}

/** A value of any JSON type, of those that programs do not expect. */
export function strangeValue(dice: Dice): unknown {
  return dice.pick<() => unknown>([
    () => null,
    () => true,
    () => dice.pick([0, -1, 1.5, 1e308, -0, 2 ** 53, 1e-300]),
    () => dice.pick(['', '0', 'null', ' ', '\u0000', '\ud800', '\u202e', '🜁', '‮<script>']),
    () => strangeText(dice, 3_000),
    () => [],
    () => [[[]]],
    () => ({}),
    () => JSON.parse('{"length":-1,"toString":"no function","then":{},"__proto__":{}}'),
    () => [strangeText(dice, 10), null, 1],
  ])();
}

const ALPHABETS = [
  'A',
  'ab9_',
  '%00',
  '%',
  '../',
  "'; --",
  '{}[]"',
  '%c3%28',
  '%ff%fe',
  '#{x}',
  ' ',
];
