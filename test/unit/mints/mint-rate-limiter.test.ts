import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { AcquireResult } from '../../../src/mints/mint-rate-limiter.ts';
import {
  createTestMintRateLimiter,
  expectGranted,
} from '../../helpers/mints/mint-rate-limiter-fixture.ts';

const MINT_URL = 'https://mint.example';
const SECOND_MS = 1_000;
const MAX_IN_FLIGHT = 16;
const MAX_WAITING = 512;

const ACCEPTED = { outcome: 'created' } as const;
const REFUSED = { outcome: 'rate_limited', retryAfterMs: null } as const;
const FAILED = { outcome: 'unavailable', reason: 'connection refused' } as const;

let test: ReturnType<typeof createTestMintRateLimiter>;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  vi.advanceTimersByTime(SECOND_MS);
  test = createTestMintRateLimiter();
});
afterEach(() => {
  vi.useRealTimers();
});

it('grants a slot to a client that waits when the pause ends', async () => {
  await send(REFUSED);
  const waiting = acquire('a', 8 * SECOND_MS);
  await vi.advanceTimersByTimeAsync(2 * SECOND_MS - 1);
  expect(await isSettled(waiting)).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expectGranted(await waiting);
});

it('rejects a client that has waited in vain for a response, and leaves no timer behind', async () => {
  await useAllSlots();
  const waiting = acquire('a', 8 * SECOND_MS);
  await vi.advanceTimersByTimeAsync(8 * SECOND_MS);
  expect(await waiting).toEqual({ outcome: 'rate_limited', retryAfterMs: SECOND_MS });
  expect(vi.getTimerCount()).toBe(0);
});

it('grants slots to the address groups in turn', async () => {
  const slots = await useAllSlots();
  const granted: string[] = [];
  for (const addressGroup of ['a', 'a', 'a', 'b', 'c']) {
    void acquire(addressGroup, 8 * SECOND_MS).then((result) => {
      granted.push(addressGroup);
      using slot = expectGranted(result);
      slot.finish(ACCEPTED);
    });
  }
  slots[0]?.[Symbol.dispose]();
  await vi.advanceTimersByTimeAsync(0);
  expect(granted).toEqual(['a', 'b', 'c', 'a', 'a']);
});

it('lets a client wait however many clients of other address groups wait', async () => {
  await useAllSlots();
  const wait = (addressGroup: string) => acquire(addressGroup, 8 * SECOND_MS);
  const waiting = Array.from({ length: MAX_WAITING }, () => wait('a'));
  expect(await isSettled(waiting[MAX_WAITING / 4])).toBe(false);
  expect(await waiting.at(-1)).toMatchObject({ outcome: 'rate_limited' });
  expect(await isSettled(wait('b'))).toBe(false);
});

it('reports finished requests, and logs when a route fails, refuses and recovers', async () => {
  await send(FAILED);
  await vi.advanceTimersByTimeAsync(60 * SECOND_MS);
  await send(ACCEPTED);
  expect(test.finishedRequests).toMatchObject([
    { mintUrl: MINT_URL, route: 'create', outcome: 'unavailable' },
    { mintUrl: MINT_URL, route: 'create', outcome: 'created' },
  ]);
  for (const pauseMs of [2, 4, 122].map((seconds) => seconds * SECOND_MS)) {
    await send(REFUSED);
    await vi.advanceTimersByTimeAsync(pauseMs);
  }
  expect(test.limiter.hasRefusedLately(MINT_URL, 'create')).toBe(true);
  expect(test.limiter.listRoutes(MINT_URL)).toEqual([
    { route: 'create', pauseMs: 0, hasRefusedLately: true },
  ]);
  for (let i = 0; i < 100; i += 1) {
    await send(ACCEPTED);
  }
  expect(test.logEntries.map(({ event }) => event)).toEqual([
    'mint_unavailable',
    'mint_available',
    'mint_rate_limited',
    'mint_rate_limit_lifted',
  ]);
});

function acquire(addressGroup = 'a', maxWaitMs = 0): Promise<AcquireResult> {
  return test.limiter.acquire(MINT_URL, 'create', { addressGroup, maxWaitMs });
}

async function send(
  result:
    | typeof ACCEPTED
    | typeof FAILED
    | { outcome: 'rate_limited'; retryAfterMs: number | null },
) {
  using slot = expectGranted(await acquire());
  slot.finish(result);
}

async function useAllSlots() {
  const slots = [];
  for (let i = 0; i < MAX_IN_FLIGHT; i += 1) {
    slots.push(expectGranted(await acquire('other')));
  }
  return slots;
}

async function isSettled(promise: Promise<unknown> | undefined): Promise<boolean> {
  const pending = Symbol('pending');
  return (await Promise.race([promise, Promise.resolve(pending)])) !== pending;
}
