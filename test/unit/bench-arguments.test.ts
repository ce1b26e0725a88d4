import { expect, it } from 'vitest';
import { readArguments } from '../../bench/harness/arguments.ts';

const FIGURES = ['start', 'discovery', 'invoice'];

it('measures every figure three times where nothing else is asked for', () => {
  expect(readArguments([], FIGURES)).toEqual({
    figures: FIGURES,
    isNamed: false,
    effort: { runs: 3, seconds: 3, zaps: 10_000, quotes: 10_000_000 },
    against: null,
    mustReach: false,
    profile: false,
  });
});

it('measures the figures that were named, in the order of the table', () => {
  const words = ['invoice', '--runs', '4', '--quotes', '1000000', 'start', '--must-reach'];

  expect(readArguments(words, FIGURES)).toMatchObject({
    figures: ['start', 'invoice'],
    isNamed: true,
    effort: { runs: 4, quotes: 1_000_000 },
    mustReach: true,
  });
});

it.each([
  [['nothing-of-ours']],
  [['--runs', '0']],
  [['--seconds', 'many']],
  [['--runs', 'Infinity']],
  [['--runs', '1.5']],
  [['--seconds', '1.25']],
  [['--quotes', '1000000.5']],
  [['--against']],
  [['--fast']],
  [['--against', 'HEAD', '--must-reach']],
  [['--against', 'HEAD', '--profile']],
  [['--profile', '--must-reach']],
  [['--must-reach', '--runs', '2']],
])('measures nothing where it was asked for %j', (words) => {
  expect(readArguments(words, FIGURES)).toBeNull();
});
