import { gzipSync } from 'node:zlib';
import type { Dice } from '../../../demo/test-mint/dice.ts';

/** Text, values and bodies that parsers stumble over. */

const ALPHABETS = ['A', 'ab9_', '%00', '%', '../', "'; --", '{}[]"', '%c3%28', '%ff%fe', ' '];

const NESTING = 10_000;

/** One body in this many is a mebibyte long. */
const BODIES_PER_HUGE = 200;
const MEBIBYTE = 1024 * 1024;

const CONTENT_TYPES = [
  'application/json',
  'application/json; charset=utf-8',
  'application/json; charset=utf-16',
  'application/x-www-form-urlencoded',
  'text/plain',
  '*/*',
  ';',
  '',
];

export type Headers = readonly (readonly [name: string, value: string])[];

/** Up to `maxLength` characters. */
export function strangeText(dice: Dice, maxLength: number): string {
  const length = 1 + Math.floor(dice.roll() ** 3 * maxLength);
  const alphabet = dice.pick(ALPHABETS);
  return alphabet.repeat(Math.ceil(length / alphabet.length)).slice(0, length);
}

/** The same text with one thing wrong with it. */
export function damaged(dice: Dice, text: string): string {
  const place = Math.floor(dice.roll() * text.length);
  const [before, after] = [text.slice(0, place), text.slice(place)];
  return dice.pick([
    before,
    after,
    before + after.slice(1),
    before + strangeText(dice, 20) + after,
    before + String.fromCharCode((text.charCodeAt(place) ^ 1) & 0x7f) + after.slice(1),
    text + text,
    text.toUpperCase(),
    '',
  ]);
}

/** A value of any JSON type. */
export function strangeValue(dice: Dice): unknown {
  return dice.pick<() => unknown>([
    () => null,
    () => true,
    () => dice.pick([0, -1, 1.5, 1e308, -0, 2 ** 53, 1e-300]),
    () => dice.pick(['', '0', 'null', ' ', '\u0000', '\ud800', '\u202e', '🜁', '‮<script>']),
    () => strangeText(dice, 3_000),
    () => [[[]]],
    () => JSON.parse('{"length":-1,"toString":"no function","then":{},"__proto__":{}}'),
    () => [strangeText(dice, 10), null, 1],
  ])();
}

/** A body for an endpoint that expects this field. */
export function strangeBody(
  dice: Dice,
  field: string,
  mintUrl: string,
): { bytes: Buffer; headers: Headers } {
  const document = strangeDocument(dice, field, mintUrl);
  const headers: [string, string][] = [['content-type', dice.pick(CONTENT_TYPES)]];
  const bytes = Buffer.from(document);
  if (dice.happens(1 / BODIES_PER_HUGE)) {
    return { bytes: Buffer.alloc(MEBIBYTE, document), headers };
  }
  return dice.pick<() => { bytes: Buffer; headers: Headers }>([
    () => ({ bytes, headers }),
    () => ({ bytes, headers: [] }),
    () => ({ bytes: Buffer.from(damaged(dice, document)), headers }),
    () => ({ bytes: Buffer.from(`\ufeff${document}`), headers }),
    () => ({ bytes: Buffer.from(document, 'utf16le'), headers }),
    () => ({ bytes: gzipSync(document), headers: [...headers, ['content-encoding', 'gzip']] }),
    () => ({ bytes, headers: [...headers, ['content-encoding', dice.pick(['gzip', 'x', ''])]] }),
    () => ({ bytes: Buffer.concat([bytes, Buffer.from([0xff, 0xfe, 0, 0x80])]), headers }),
    () => ({ bytes: Buffer.alloc(Math.floor(dice.between(0, 40_000)), ' '), headers }),
    () => ({ bytes: Buffer.alloc(0), headers }),
  ])();
}

function strangeDocument(dice: Dice, field: string, mintUrl: string): string {
  const right = JSON.stringify(rightValue(dice, field, mintUrl));
  const value = JSON.stringify(strangeValue(dice));
  const token = dice.pick(['1e99999', '-', '01', 'NaN', '"\\u00"', "'x'", '"\\ud800"', '"\u0001"']);
  return dice.pick([
    `{"${field}":${right}}`,
    `{"${field}":${value}}`,
    `{"${field}":${right},"${field}":${value}}`,
    `{"__proto__":{"${field}":${right}},"${field}":${value}}`,
    `{"${field}":${right},"toString":1,"then":1,"":${value}}`,
    value,
    `${'['.repeat(NESTING)}${']'.repeat(NESTING)}`,
    '['.repeat(NESTING),
    `{"${field}":${token}}`,
    `{"${field}":"${strangeText(dice, 31_000).replaceAll('"', '')}"}`,
    `{${`"${field}":1,`.repeat(1_500)}"${field}":true}`,
  ]);
}

/** Mint URLs lead nowhere outside of this machine. */
function rightValue(dice: Dice, field: string, mintUrl: string): unknown {
  switch (field) {
    case 'mint_url':
      return dice.pick([
        mintUrl,
        `${mintUrl}/../..`,
        `${mintUrl}?x`,
        'http://127.0.0.1:1',
        'http://a:b@127.0.0.1:1',
        'http://127.0.0.1:99999',
        'http://[::1]:1',
        'file:///etc/passwd',
        'javascript:1',
        'http://',
      ]);
    case 'lockQuotes':
      return dice.happens(0.5);
    default:
      return dice.pick(['alice', 'npub1alice', 'al', 'a'.repeat(65), 'ALICE', 'al ice', 'аlice']);
  }
}
