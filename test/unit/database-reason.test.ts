import { expect, it } from 'vitest';
import { reasonOf } from '../../src/store/database.ts';

/** What a person reads of an error of a database. */

it.each([
  ['its message', new Error('password authentication failed'), 'password authentication failed'],
  [
    'the code, where each of a host’s addresses has failed and there is no message',
    Object.assign(new AggregateError([new Error('one')], ''), { code: 'ECONNREFUSED' }),
    'ECONNREFUSED',
  ],
  [
    'what it was caused by',
    new Error('query failed', { cause: new Error('disk full') }),
    'disk full',
  ],
])('is %s', (_what, error, reason) => {
  expect(reasonOf(error)).toBe(reason);
});
