import { expect, it } from 'vitest';
import { RequestError, retryLogLevel } from '../../src/errors.ts';

it.each([
  ['warn', 'an unavailable database or mint', new RequestError('unavailable', 'Try again.')],
  ['error', 'an invalid request, which fails again', new RequestError('invalid', 'Wrong.')],
  ['error', 'a bug', new TypeError('x is undefined')],
])('retryLogLevel returns %s for %s', (level, _case, error) => {
  expect(retryLogLevel(error)).toBe(level);
});
