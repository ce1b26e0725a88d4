import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type MintRateLimiter, parseKnownLimits } from '../../src/mints/mint-rate-limiter.ts';
import type { RequestOutcome } from '../../src/mints/route-limit.ts';
import { createLimiter, FakeLimitStore, granted } from '../helpers/test-limiter.ts';

const MINT = 'https://mint.example';
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const PATIENCE_MS = 8 * SECOND;
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

// outcomes/limited-mints.test.ts has one process, with sliding and elastic windows.
it('serves two processes at an elastic limit, although each restarts the minute that the other waits for', async () => {
  vi.spyOn(Math, 'random').mockImplementation(seededRandom(1));
  const acceptedAtMs = await simulate({ payersAMinute: 60, minutes: 120, mint: elasticLimit(20) });
  expect(acceptedAtMs.length).toBeGreaterThan(120 * 5);
  const gaps = acceptedAtMs.slice(1).map((atMs, index) => atMs - (acceptedAtMs[index] ?? 0));
  expect(Math.max(...gaps)).toBeLessThan(10 * MINUTE);
});

describe('a mint that does not answer', () => {
  it('is logged once when it stops and once when it answers again', async () => {
    const { limiter, logged } = createLimiter();
    for (const outcome of [SUCCESS, FAILURE, FAILURE, BARE_429, FAILURE, SUCCESS, SUCCESS]) {
      const permit = granted(
        await waitFor(limiter.acquire(MINT, 'create', { patienceMs: MINUTE })),
      );
      permit.settle(outcome);
    }
    expect(logged.map(({ event }) => event)).toEqual(['mint_unavailable', 'mint_available']);
    expect(logged[0]).toMatchObject({ mintUrl: MINT, route: 'create', reason: FAILURE.reason });
  });
});

describe('permits', () => {
  it('of one route or mint do not depend on another', async () => {
    const { limiter } = createLimiter();
    for (const outcome of [BARE_429, { outcome: 'rate_limited', retryAfterMs: MINUTE }]) {
      granted(await limiter.acquire(MINT, 'create')).settle(outcome);
      await vi.advanceTimersByTimeAsync(2 * SECOND);
    }
    expect((await limiter.acquire(MINT, 'create')).outcome).toBe('rate_limited');
    expect((await limiter.acquire(MINT, 'check')).outcome).toBe('granted');
    expect((await limiter.acquire(MINT, 'socket')).outcome).toBe('granted');
    expect((await limiter.acquire('https://other.example', 'create')).outcome).toBe('granted');
    expect([limiter.waitMs(MINT, 'create'), limiter.waitMs(MINT, 'check')]).toEqual([58_000, 0]);
  });

  it('are refused at once without patience, or if the rest outlasts it', async () => {
    const { limiter } = createLimiter();
    granted(await limiter.acquire(MINT, 'read')).settle({
      outcome: 'rate_limited',
      retryAfterMs: 5_000,
    });
    const refused = { outcome: 'rate_limited', retryAfterMs: 5_000 };
    expect(await limiter.acquire(MINT, 'read')).toEqual(refused);
    expect(await limiter.acquire(MINT, 'read', { patienceMs: 4_999 })).toEqual(refused);
    const patient = limiter.acquire(MINT, 'read', { patienceMs: 5_001 });
    expect(granted(await waitFor(patient))).toBeDefined();
  });

  it('are refused if the patience ended while the stored limits were read', async () => {
    const store = new FakeLimitStore();
    const { limiter } = createLimiter({ store });
    vi.spyOn(store, 'readRateLimits').mockImplementation(async () => {
      await Promise.resolve();
      vi.advanceTimersByTime(PATIENCE_MS + 1);
    });
    const acquired = Array.from({ length: 17 }, () =>
      limiter.acquire(MINT, 'create', { patienceMs: PATIENCE_MS }),
    );
    expect((await Promise.all(acquired)).at(-1)?.outcome).toBe('rate_limited');
  });

  it('are refused when the patience ends, with the time to come back', async () => {
    const { limiter } = createLimiter();
    await rest(limiter, 2 * SECOND);
    const test = granted(await waitFor(limiter.acquire(MINT, 'create', { patienceMs: MINUTE })));
    const waiting = limiter.acquire(MINT, 'create', { patienceMs: 3 * SECOND });
    await vi.advanceTimersByTimeAsync(SECOND);
    test.settle({ outcome: 'rate_limited', retryAfterMs: 30 * SECOND });
    await vi.advanceTimersByTimeAsync(SECOND);
    expect(await Promise.race([waiting, Promise.resolve('pending')])).toBe('pending');
    await vi.advanceTimersByTimeAsync(SECOND);
    expect(await waiting).toEqual({ outcome: 'rate_limited', retryAfterMs: 28 * SECOND });
  });

  it('go to callers in order of arrival', async () => {
    const { limiter } = createLimiter();
    await rest(limiter, 2 * SECOND);
    const order: number[] = [];
    for (const caller of [1, 2, 3, 4, 5]) {
      void limiter.acquire(MINT, 'create', { patienceMs: MINUTE }).then((acquired) => {
        order.push(caller);
        granted(acquired).settle(SUCCESS);
      });
    }
    await vi.advanceTimersByTimeAsync(2 * SECOND);
    expect(order).toEqual([1, 2, 3, 4, 5]);
  });

  it('go to the address group with the fewest requests under way first', async () => {
    const { limiter } = createLimiter();
    const running = await Promise.all(
      Array.from({ length: 16 }, () => limiter.acquire(MINT, 'create', { addressGroup: 'many' })),
    );
    const order: string[] = [];
    for (const addressGroup of ['many', 'many', 'few', 'few']) {
      void limiter
        .acquire(MINT, 'create', { addressGroup, patienceMs: MINUTE })
        .then(() => order.push(addressGroup));
    }
    await vi.advanceTimersByTimeAsync(0);
    expect(order).toEqual([]);
    for (const acquired of running) {
      granted(acquired).settle(SUCCESS);
      await vi.advanceTimersByTimeAsync(0);
    }
    expect(order).toEqual(['few', 'few', 'many', 'many']);
  });

  it('that are given back unused go to the next caller', async () => {
    const { limiter, finished } = createLimiter();
    await rest(limiter, 2 * SECOND);
    const first = granted(await waitFor(limiter.acquire(MINT, 'create', { patienceMs: MINUTE })));
    const second = limiter.acquire(MINT, 'create', { patienceMs: MINUTE });
    await vi.advanceTimersByTimeAsync(0);
    first.withdraw();
    expect((await second).outcome).toBe('granted');
    expect(finished).toHaveLength(1);
  });

  it('are refused when 512 callers wait already', async () => {
    const { limiter } = createLimiter();
    await rest(limiter, MINUTE);
    const patient = { patienceMs: 2 * MINUTE };
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

  it('report every finished request with its duration', async () => {
    const { limiter, finished } = createLimiter();
    const permit = granted(await limiter.acquire(MINT, 'swap'));
    await vi.advanceTimersByTimeAsync(120);
    permit.settle({ outcome: 'swapped' });
    expect(finished).toEqual([{ mintUrl: MINT, route: 'swap', outcome: 'swapped', tookMs: 120 }]);
  });
});

describe('what is learned of a mint', () => {
  it('is stored, logged and reported, and another process uses it from its first request', async () => {
    const store = new FakeLimitStore();
    const first = createLimiter({ store });
    await learn(first.limiter, 3);
    expect(store.limits.get(MINT)).toEqual({ create: { count: 3, isElastic: false } });
    expect(first.logged).toMatchObject([{ event: 'mint_rate_limit_changed', route: 'create' }]);
    expect(first.limiter.knows(MINT, 'create')).toBe(true);
    expect(first.limiter.status(MINT)).toMatchObject([
      { route: 'create', restMs: 61_000, limit: { perWindow: 3, used: 3 } },
    ]);
    const second = createLimiter({ store });
    granted(await second.limiter.acquire(MINT, 'create')).settle(SUCCESS);
    granted(await second.limiter.acquire(MINT, 'create')).settle(SUCCESS);
    expect(await second.limiter.acquire(MINT, 'create')).toMatchObject({
      outcome: 'rate_limited',
      retryAfterMs: 61_000,
    });
  });

  it('is adopted by a process that meets a 429 later', async () => {
    const store = new FakeLimitStore();
    const { limiter } = createLimiter({ store });
    granted(await limiter.acquire(MINT, 'create')).settle(SUCCESS);
    store.limits.set(MINT, { create: { count: 1, isElastic: true } });
    granted(await limiter.acquire(MINT, 'create')).settle(BARE_429);
    await vi.advanceTimersByTimeAsync(0);
    expect(limiter.knows(MINT, 'create')).toBe(true);
  });

  it('is removed from the store when requests beyond a limit succeed', async () => {
    const store = new FakeLimitStore();
    store.limits.set(MINT, {
      create: { count: 2, isElastic: false },
      check: { count: 20, isElastic: true },
    });
    const { limiter, logged } = createLimiter({ store });
    await limiter.acquire(MINT, 'info');
    await vi.advanceTimersByTimeAsync(2 * MINUTE);
    for (let count = 0; count < 6; count += 1) {
      granted(await limiter.acquire(MINT, 'create')).settle(SUCCESS);
    }
    expect(store.limits.get(MINT)).toEqual({ check: { count: 20, isElastic: true } });
    expect(logged.map(({ limit }) => limit)).toEqual([{ count: 3, isElastic: false }, null]);
  });

  it('does not depend on the database', async () => {
    const store = new FakeLimitStore();
    store.isAway = true;
    const { limiter, logged } = createLimiter({ store });
    await learn(limiter, 3);
    expect(limiter.knows(MINT, 'create')).toBe(true);
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
  ])('is nothing if the stored value is %j', (stored) => {
    expect(parseKnownLimits(stored)).toEqual({});
  });
});

/** So many requests, and then none until a minute passed without any. */
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
 * Payers of two processes with one database, who come at an even pace and each ask again once within their patience.
 *
 * @returns when the mint accepted a request
 */
async function simulate(options: {
  payersAMinute: number;
  minutes: number;
  mint: () => boolean;
}): Promise<number[]> {
  const { payersAMinute, minutes, mint } = options;
  const store = new FakeLimitStore();
  const limiters = Array.from({ length: 2 }, () => createLimiter({ store }).limiter);
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
  const untilMs = performance.now() + PATIENCE_MS;
  for (let attempt = 0; attempt < 2; attempt += 1) {
    const patienceMs = Math.max(1, untilMs - performance.now());
    const acquired = await limiter.acquire(MINT, 'create', { addressGroup, patienceMs });
    if (acquired.outcome === 'rate_limited') {
      return;
    }
    const answer = await ask();
    acquired.permit.settle(answer);
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

/** Makes the route `create` rest. */
async function rest(limiter: MintRateLimiter, retryAfterMs: number): Promise<void> {
  granted(await limiter.acquire(MINT, 'create')).settle({ outcome: 'rate_limited', retryAfterMs });
}

/** Makes the limiter learn that the route `create` allows so many requests. */
async function learn(limiter: MintRateLimiter, count: number): Promise<void> {
  for (let sent = 0; sent < count; sent += 1) {
    granted(await limiter.acquire(MINT, 'create')).settle(SUCCESS);
  }
  for (let refused = 0; refused < 3; refused += 1) {
    const acquired = await waitFor(limiter.acquire(MINT, 'create', { patienceMs: MINUTE }));
    granted(acquired).settle(BARE_429);
  }
  await vi.advanceTimersByTimeAsync(0);
}

/** Lets virtual time pass until a promise is fulfilled. */
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
