import { expect, it } from 'vitest';
import { MAX_NAMED_MINTS, MintNames, OTHER_MINTS } from '../../src/metrics/mint-names.ts';

const OWN = 'https://mint.example';
const NOW = 1_800_000_000_000;
const HOUR = 60 * 60_000;

const strangers = (count: number, from = 0) =>
  Array.from({ length: count }, (_, index) => `https://mint${from + index}.example`);

it('names the mints of the operator always, and the busiest of strangers as long as there is room', () => {
  const names = new MintNames([OWN]);
  names.name(strangers(MAX_NAMED_MINTS + 1), NOW);
  expect(names.of(OWN)).toBe(OWN);
  expect(names.of('https://mint0.example')).toBe('https://mint0.example');
  expect(names.of(`https://mint${MAX_NAMED_MINTS}.example`)).toBe(OTHER_MINTS);
  expect(names.all).toEqual([OWN, ...strangers(MAX_NAMED_MINTS)]);
});

it('names no more mints in a day than its bound, however many strangers make up', () => {
  const names = new MintNames([OWN]);
  const named = new Set<string>();
  for (let hour = 0; hour < 24; hour += 1) {
    names.name(strangers(MAX_NAMED_MINTS, hour * MAX_NAMED_MINTS), NOW + hour * HOUR);
    for (const mint of names.all) {
      named.add(mint);
    }
  }
  expect(named.size).toBe(1 + MAX_NAMED_MINTS);
});

it('gives the name of a mint with nothing to do to another after a day', () => {
  const names = new MintNames([OWN]);
  names.name(strangers(MAX_NAMED_MINTS), NOW);
  names.name(['https://mint0.example'], NOW + 20 * HOUR);
  names.name(['https://late.example'], NOW + 25 * HOUR);
  expect(names.all).toEqual([OWN, 'https://mint0.example', 'https://late.example']);
});

it('takes no room for mints of the operator', () => {
  const names = new MintNames([OWN]);
  names.name([OWN, ...strangers(MAX_NAMED_MINTS)], NOW);
  expect(names.all).toEqual([OWN, ...strangers(MAX_NAMED_MINTS)]);
  expect([names.isOwn(OWN), names.isOwn('https://mint0.example')]).toEqual([true, false]);
});
