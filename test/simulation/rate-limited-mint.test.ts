import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, it } from 'vitest';
import type { RateLimit } from '../../demo/test-mint/rate-limiter.ts';
import type { LimitResult, LimitScenario } from './rate-limited-mint.ts';

const PROGRAM = path.join(import.meta.dirname, 'rate-limited-mint.ts');

/** As Nutshell by default: each request restarts the minute. */
const ELASTIC: RateLimit = { requestsPerWindow: 20, windowKind: 'elastic' };
const SLIDING: RateLimit = { requestsPerWindow: 20, windowKind: 'sliding' };

const COMMON = {
  payersPerMinute: 30,
  addresses: 12,
  processes: 1,
  minutes: 10,
  settlingMinutes: 0,
};

const SCENARIOS: readonly LimitScenario[] = [
  { ...COMMON, name: 'sliding', limit: SLIDING, minutes: 13, settlingMinutes: 3 },
  { ...COMMON, name: 'elastic', limit: ELASTIC, payersPerMinute: 60 },
  { ...COMMON, name: 'two processes, sliding', limit: SLIDING, processes: 2 },
  { ...COMMON, name: 'two processes, elastic', limit: ELASTIC, processes: 2 },
  {
    ...{ ...COMMON, name: 'raised', limit: SLIDING, payersPerMinute: 60 },
    change: { afterMinutes: 3, limit: { requestsPerWindow: 60, windowKind: 'sliding' } },
    ...{ minutes: 10, settlingMinutes: 8 },
  },
  {
    ...{ ...COMMON, name: 'removed', limit: ELASTIC, minutes: 9, settlingMinutes: 7 },
    change: { afterMinutes: 2, limit: null },
  },
];

let results: Map<string, LimitResult>;

beforeAll(async () => {
  const args = ['--no-deprecation', PROGRAM, JSON.stringify(SCENARIOS)];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  const lines = stdout.trim().split('\n');
  results = new Map(lines.map((line) => JSON.parse(line)).map((result) => [result.name, result]));
}, 120_000);

it('creates 15 invoices per minute with fewer than 5 rejections at a mint with a sliding limit of 20', () => {
  const { invoicesPerMinute, rejectionsPerMinute } = get('sliding');
  expect(invoicesPerMinute).toBeGreaterThanOrEqual(15);
  expect(rejectionsPerMinute).toBeLessThan(5);
});

it('creates 14 invoices per minute with gaps of at most 110 s at a mint with an elastic limit of 20', () => {
  const { invoicesPerMinute, longestGapSeconds } = get('elastic');
  expect(invoicesPerMinute).toBeGreaterThanOrEqual(14);
  expect(longestGapSeconds).toBeLessThanOrEqual(110);
});

it.each(['sliding', 'elastic'])('creates 6 invoices per minute with two processes (%s)', (kind) => {
  expect(get(`two processes, ${kind}`).invoicesPerMinute).toBeGreaterThanOrEqual(6);
});

it('creates 45 invoices per minute 5 minutes after the mint raises its limit from 20 to 60', () => {
  expect(get('raised').invoicesPerMinute).toBeGreaterThanOrEqual(45);
});

it('serves every payer 5 minutes after the mint removes its limit', () => {
  expect(get('removed').servedShare).toBe(1);
});

function get(name: string): LimitResult {
  return results.get(name) as LimitResult;
}
