import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type MintRateLimiter, parseLearnedLimits } from '../../src/mints/mint-rate-limiter.ts';
import type { RequestOutcome } from '../../src/mints/route-rate-limiter.ts';
import {
  createTestRateLimiter,
  expectGranted,
  FakeRateLimitStore,
} from '../helpers/test-mint-rate-limiter.ts';

const MINT = 'https://mint.example';
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const MAX_WAIT_MS = 8 * SECOND;
const LATENCY_MS = 50;

const SUCCESS = { outcome: 'created' };
const BARE_429 = { outcome: 'rate_limited', retryAfterMs: null };
const FAILURE = { outcome: 'unavailable', reason: 'connection refused' };

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

// test/outcomes/rate-limited-mints.test.ts covers one process with sliding and elastic windows.
it("serves two processes at an elastic limit, although each restarts the other's window", async () => {
  vi.spyOn(Math, 'random').mockImplementation(seededRandom(1));
  const acceptedAtMs = await simulate({ payersAMinute: 60, minutes: 120, mint: elasticLimit(20) });
  expect(acceptedAtMs.length).toBeGreaterThan(120 * 5);
  const gaps = acceptedAtMs.slice(1).map((atMs, index) => atMs - (acceptedAtMs[index] ?? 0));
  expect(Math.max(...gaps)).toBeLessThan(10 * MINUTE);
});

describe('MintRateLimiter with an unresponsive mint', () => {
  it('logs once when the mint stops responding and once when it responds again', async () => {
    const { limiter, logged } = createTestRateLimiter();
    for (const outcome of [SUCCESS, FAILURE, FAILURE, BARE_429, FAILURE, SUCCESS, SUCCESS]) {
      const permit = expectGranted(
        await waitFor(limiter.acquire(MINT, 'create', { maxWaitMs: MINUTE })),
      );
      permit.complete(outcome);
    }
    expect(logged.map(({ event }) => event)).toEqual(['mint_unavailable', 'mint_available']);
    expect(logged[0]).toMatchObject({ mintUrl: MINT, route: 'create', reason: FAILURE.reason });
  });
});

describe('MintRateLimiter.acquire', () => {
  it('limits each route and mint independently', async () => {
    const { limiter } = createTestRateLimiter();
    for (const outcome of [BARE_429, { outcome: 'rate_limited', retryAfterMs: MINUTE }]) {
      expectGranted(await limiter.acquire(MINT, 'create')).complete(outcome);
      await vi.advanceTimersByTimeAsync(2 * SECOND);
    }
    expect((await limiter.acquire(MINT, 'create')).outcome).toBe('rate_limited');
    expect((await limiter.acquire(MINT, 'check')).outcome).toBe('granted');
    expect((await limiter.acquire(MINT, 'socket')).outcome).toBe('granted');
    expect((await limiter.acquire('https://other.example', 'create')).outcome).toBe('granted');
    expect([limiter.getWaitMs(MINT, 'create'), limiter.getWaitMs(MINT, 'check')]).toEqual([
      58_000, 0,
    ]);
  });

  it('rejects immediately without a max wait, or if the cooldown is longer', async () => {
    const { limiter } = createTestRateLimiter();
    expectGranted(await limiter.acquire(MINT, 'read')).complete({
      outcome: 'rate_limited',
      retryAfterMs: 5_000,
    });
    const refused = { outcome: 'rate_limited', retryAfterMs: 5_000 };
    expect(await limiter.acquire(MINT, 'read')).toEqual(refused);
    expect(await limiter.acquire(MINT, 'read', { maxWaitMs: 4_999 })).toEqual(refused);
    const patient = limiter.acquire(MINT, 'read', { maxWaitMs: 5_001 });
    expect(expectGranted(await waitFor(patient))).toBeDefined();
  });

  it('rejects if the max wait ended while the stored limits were read', async () => {
    const store = new FakeRateLimitStore();
    const { limiter } = createTestRateLimiter({ store });
    vi.spyOn(store, 'loadRateLimits').mockImplementation(async () => {
      await Promise.resolve();
      vi.advanceTimersByTime(MAX_WAIT_MS + 1);
    });
    const acquired = Array.from({ length: 17 }, () =>
      limiter.acquire(MINT, 'create', { maxWaitMs: MAX_WAIT_MS }),
    );
    expect((await Promise.all(acquired)).at(-1)?.outcome).toBe('rate_limited');
  });

  it('rejects when the max wait ends, with a retry time', async () => {
    const { limiter } = createTestRateLimiter();
    await startCooldown(limiter, 2 * SECOND);
    const test = expectGranted(
      await waitFor(limiter.acquire(MINT, 'create', { maxWaitMs: MINUTE })),
    );
    const waiting = limiter.acquire(MINT, 'create', { maxWaitMs: 3 * SECOND });
    await vi.advanceTimersByTimeAsync(SECOND);
    test.complete({ outcome: 'rate_limited', retryAfterMs: 30 * SECOND });
    await vi.advanceTimersByTimeAsync(SECOND);
    expect(await Promise.race([waiting, Promise.resolve('pending')])).toBe('pending');
    await vi.advanceTimersByTimeAsync(SECOND);
    expect(await waiting).toEqual({ outcome: 'rate_limited', retryAfterMs: 28 * SECOND });
  });

  it('grants permits in order of arrival', async () => {
    const { limiter } = createTestRateLimiter();
    await startCooldown(limiter, 2 * SECOND);
    const order: number[] = [];
    for (const caller of [1, 2, 3, 4, 5]) {
      void limiter.acquire(MINT, 'create', { maxWaitMs: MINUTE }).then((acquired) => {
        order.push(caller);
        expectGranted(acquired).complete(SUCCESS);
      });
    }
    await vi.advanceTimersByTimeAsync(2 * SECOND);
    expect(order).toEqual([1, 2, 3, 4, 5]);
  });

  it('grants permits first to the address group with the fewest pending requests', async () => {
    const { limiter } = createTestRateLimiter();
    const running = await Promise.all(
      Array.from({ length: 16 }, () => limiter.acquire(MINT, 'create', { addressGroup: 'many' })),
    );
    const order: string[] = [];
    for (const addressGroup of ['many', 'many', 'few', 'few']) {
      void limiter
        .acquire(MINT, 'create', { addressGroup, maxWaitMs: MINUTE })
        .then(() => order.push(addressGroup));
    }
    await vi.advanceTimersByTimeAsync(0);
    expect(order).toEqual([]);
    for (const acquired of running) {
      expectGranted(acquired).complete(SUCCESS);
      await vi.advanceTimersByTimeAsync(0);
    }
    expect(order).toEqual(['few', 'few', 'many', 'many']);
  });

  it('grants a cancelled permit to the next caller', async () => {
    const { limiter, finished } = createTestRateLimiter();
    await startCooldown(limiter, 2 * SECOND);
    const first = expectGranted(
      await waitFor(limiter.acquire(MINT, 'create', { maxWaitMs: MINUTE })),
    );
    const second = limiter.acquire(MINT, 'create', { maxWaitMs: MINUTE });
    await vi.advanceTimersByTimeAsync(0);
    first.cancel();
    expect((await second).outcome).toBe('granted');
    expect(finished).toHaveLength(1);
  });

  it('rejects when 512 callers are waiting', async () => {
    const { limiter } = createTestRateLimiter();
    await startCooldown(limiter, MINUTE);
    const patient = { maxWaitMs: 2 * MINUTE };
    for (let count = 0; count < 512; count += 1) {
      void limiter.acquire(MINT, 'create', patient);
    }
    await vi.advanceTimersByTimeAsync(0);
    expect((await limiter.acquire(MINT, 'create', patient)).outcome).toBe('rate_limited');
    await vi.advanceTimersByTimeAsync(MINUTE);
    const waiting = limiter.acquire(MINT, 'create', patient);
    await vi.advanceTimersByTimeAsync(0);
    expect(await Promise.race([waiting, Promise.resolve('pending')])).toBe('pending');
  });

  it('reports every finished request with its duration', async () => {
    const { limiter, finished } = createTestRateLimiter();
    const permit = expectGranted(await limiter.acquire(MINT, 'swap'));
    await vi.advanceTimersByTimeAsync(120);
    permit.complete({ outcome: 'swapped' });
    expect(finished).toEqual([
      { mintUrl: MINT, route: 'swap', outcome: 'swapped', durationMs: 120 },
    ]);
  });
});

describe('a learned limit', () => {
  it('is stored, logged and reported, and another process uses it from its first request', async () => {
    const store = new FakeRateLimitStore();
    const first = createTestRateLimiter({ store });
    await learn(first.limiter, 3);
    expect(store.limits.get(MINT)).toEqual({ create: { count: 3, isElastic: false } });
    expect(first.logged).toMatchObject([{ event: 'mint_rate_limit_changed', route: 'create' }]);
    expect(first.limiter.hasLearnedLimit(MINT, 'create')).toBe(true);
    expect(first.limiter.getStatus(MINT)).toMatchObject([
      { route: 'create', cooldownMs: 61_000, limit: { perWindow: 3, used: 3 } },
    ]);
    const second = createTestRateLimiter({ store });
    expectGranted(await second.limiter.acquire(MINT, 'create')).complete(SUCCESS);
    expectGranted(await second.limiter.acquire(MINT, 'create')).complete(SUCCESS);
    expect(await second.limiter.acquire(MINT, 'create')).toMatchObject({
      outcome: 'rate_limited',
      retryAfterMs: 61_000,
    });
  });

  it('is adopted by a process that receives a 429 later', async () => {
    const store = new FakeRateLimitStore();
    const { limiter } = createTestRateLimiter({ store });
    expectGranted(await limiter.acquire(MINT, 'create')).complete(SUCCESS);
    store.limits.set(MINT, { create: { count: 1, isElastic: true } });
    expectGranted(await limiter.acquire(MINT, 'create')).complete(BARE_429);
    await vi.advanceTimersByTimeAsync(0);
    expect(limiter.hasLearnedLimit(MINT, 'create')).toBe(true);
  });

  it('is removed from the store when requests beyond it succeed', async () => {
    const store = new FakeRateLimitStore();
    store.limits.set(MINT, {
      create: { count: 2, isElastic: false },
      check: { count: 20, isElastic: true },
    });
    const { limiter, logged } = createTestRateLimiter({ store });
    await limiter.acquire(MINT, 'info');
    await vi.advanceTimersByTimeAsync(2 * MINUTE);
    for (let count = 0; count < 6; count += 1) {
      expectGranted(await limiter.acquire(MINT, 'create')).complete(SUCCESS);
    }
    expect(store.limits.get(MINT)).toEqual({ check: { count: 20, isElastic: true } });
    expect(logged.map(({ limit }) => limit)).toEqual([{ count: 3, isElastic: false }, null]);
  });

  it('works without the database', async () => {
    const store = new FakeRateLimitStore();
    store.isUnavailable = true;
    const { limiter, logged } = createTestRateLimiter({ store });
    await learn(limiter, 3);
    expect(limiter.hasLearnedLimit(MINT, 'create')).toBe(true);
    await vi.advanceTimersByTimeAsync(0);
    const events = logged.map(({ event }) => event);
    expect(events).toContain('mint_rate_limits_not_read');
    expect(events.at(-1)).toBe('mint_rate_limits_not_stored');
  });

  it.each([
    null,
    'text',
    [],
    { create: { count: 0, isElastic: false } },
    { create: { count: 5 } },
    { unknown: { count: 5, isElastic: false } },
  ])('is ignored if the stored value is %j', (stored) => {
    expect(parseLearnedLimits(stored)).toEqual({});
  });
});

/** An elastic window: it admits this many requests, then none until a minute without requests. */
function elasticLimit(count: number): () => boolean {
  let lastAtMs = Number.NEGATIVE_INFINITY;
  let requests = 0;
  return () => {
    requests = performance.now() - lastAtMs >= MINUTE ? 1 : requests + 1;
    lastAtMs = performance.now();
    return requests <= count;
  };
}

/**
 * Simulates payers of two processes with one database, who arrive at an even pace and retry once.
 *
 * @returns the times at which the mint accepted requests
 */
async function simulate(options: {
  payersAMinute: number;
  minutes: number;
  mint: () => boolean;
}): Promise<number[]> {
  const { payersAMinute, minutes, mint } = options;
  const store = new FakeRateLimitStore();
  const limiters = Array.from({ length: 2 }, () => createTestRateLimiter({ store }).limiter);
  const acceptedAtMs: number[] = [];
  const ask = async () => {
    await delay(LATENCY_MS);
    const isAccepted = mint();
    if (isAccepted) {
      acceptedAtMs.push(performance.now());
    }
    return isAccepted ? SUCCESS : BARE_429;
  };
  for (let index = 0; index < payersAMinute * minutes; index += 1) {
    const limiter = limiters[index % 2] as MintRateLimiter;
    setTimeout(
      () => void pay(limiter, `group ${index % 5}`, ask),
      (index * MINUTE) / payersAMinute,
    );
  }
  await vi.advanceTimersByTimeAsync(minutes * MINUTE);
  return acceptedAtMs;
}

async function pay(
  limiter: MintRateLimiter,
  addressGroup: string,
  ask: () => Promise<RequestOutcome>,
): Promise<void> {
  const untilMs = performance.now() + MAX_WAIT_MS;
  for (let attempt = 0; attempt < 2; attempt += 1) {
    const maxWaitMs = Math.max(1, untilMs - performance.now());
    const acquired = await limiter.acquire(MINT, 'create', { addressGroup, maxWaitMs: maxWaitMs });
    if (acquired.outcome === 'rate_limited') {
      return;
    }
    const answer = await ask();
    acquired.permit.complete(answer);
    if (answer === SUCCESS) {
      return;
    }
  }
}

/** A linear congruential generator of numbers from 0 to 1. */
function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

/** Starts a cooldown of the route `create`. */
async function startCooldown(limiter: MintRateLimiter, retryAfterMs: number): Promise<void> {
  expectGranted(await limiter.acquire(MINT, 'create')).complete({
    outcome: 'rate_limited',
    retryAfterMs,
  });
}

/** Makes the limiter learn a limit of the route `create`. */
async function learn(limiter: MintRateLimiter, count: number): Promise<void> {
  for (let sent = 0; sent < count; sent += 1) {
    expectGranted(await limiter.acquire(MINT, 'create')).complete(SUCCESS);
  }
  for (let refused = 0; refused < 3; refused += 1) {
    const acquired = await waitFor(limiter.acquire(MINT, 'create', { maxWaitMs: MINUTE }));
    expectGranted(acquired).complete(BARE_429);
  }
  await vi.advanceTimersByTimeAsync(0);
}

/** Advances virtual time until a promise is fulfilled. */
async function waitFor<T>(promise: Promise<T>): Promise<T> {
  let isDone = false;
  void promise.finally(() => {
    isDone = true;
  });
  await vi.advanceTimersByTimeAsync(0);
  while (!isDone) {
    await vi.advanceTimersToNextTimerAsync();
  }
  return await promise;
}

function delay(durationMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, durationMs));
}
