import { expect, it } from 'vitest';
import { parseRetryAfterMs } from '../../../src/net/retry-after.ts';

const NOW_MS = Date.parse('2026-11-21T10:00:00Z');

it.each([
  [undefined, null],
  ['', null],
  ['soon', null],
  ['0', 0],
  ['30', 30_000],
  [' 1.5 ', 1_500],
  ['999999999999', 3_600_000],
  ['Sat, 21 Nov 2026 10:00:20 GMT', 20_000],
  ['Sat, 21 Nov 2026 09:00:00 GMT', 0],
  ['Sun, 21 Nov 2038 10:00:00 GMT', 3_600_000],
])('parseRetryAfterMs(%j) returns %j', (header, expectedMs) => {
  expect(parseRetryAfterMs(header, NOW_MS, 3_600_000)).toBe(expectedMs);
});
