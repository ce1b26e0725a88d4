import { expect, it } from 'vitest';
import { readRetryAfterMs } from '../../../../../src/http/web/browser/retry-after.ts';

it.each([
  ['12', 12_000],
  ['99999999', 600_000],
  ['-1', 5_000],
  ['Wed, 21 Oct 2026 07:28:00 GMT', 5_000],
])(
  'waits as long as the server asks with %j, within what timers can count',
  (value, durationMs) => {
    expect(readRetryAfterMs(new Headers({ 'retry-after': value }), 5)).toBe(durationMs);
  },
);
