import { expect, it } from 'vitest';
import { reasonOf } from '../../src/store/database.ts';

it.each([
  ['its message', new Error('password authentication failed'), 'password authentication failed'],
  [
    'the code of an error without a message',
    Object.assign(new AggregateError([new Error('one')], ''), { code: 'ECONNREFUSED' }),
    'ECONNREFUSED',
  ],
  ['the cause', new Error('query failed', { cause: new Error('disk full') }), 'disk full'],
])('reasonOf returns %s', (_case, error, reason) => {
  expect(reasonOf(error)).toBe(reason);
});
