import { expect, it } from 'vitest';
import { DatabaseUnavailableError, RequestError, retryLogLevel } from '../../src/errors.ts';

it.each([
  ['warn', 'an unavailable mint', new RequestError('unavailable', 'Try again.')],
  ['warn', 'an unavailable database', new DatabaseUnavailableError(new Error('it is down'))],
  ['error', 'an invalid request, which fails again', new RequestError('invalid', 'Wrong.')],
  ['error', 'a bug', new TypeError('x is undefined')],
])('retryLogLevel returns %s for %s', (level, _case, error) => {
  expect(retryLogLevel(error)).toBe(level);
});
