import { expect, it } from 'vitest';
import { Refusal, retryLogLevel } from '../../src/errors.ts';

it.each([
  ['an unavailable database or mint', new Refusal('unavailable', 'Try again.'), 'warn'],
  ['a refusal that a retry does not change', new Refusal('invalid', 'Wrong.'), 'error'],
  ['a bug', new TypeError('x is undefined'), 'error'],
])('a failure by %s is logged at the right level', (_case, error, level) => {
  expect(retryLogLevel(error)).toBe(level);
});
