import { expect, it } from 'vitest';
import { RequestError, retryLogLevel } from '../../src/errors.ts';

it.each([
  ['an unavailable database or mint', new RequestError('unavailable', 'Try again.'), 'warn'],
  ['a refusal that a retry does not change', new RequestError('invalid', 'Wrong.'), 'error'],
  ['a bug', new TypeError('x is undefined'), 'error'],
])('logs a failure by %s at the right level', (_case, error, level) => {
  expect(retryLogLevel(error)).toBe(level);
});
