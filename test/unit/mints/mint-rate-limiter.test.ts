import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type MintRateLimiter, parseLearnedLimits } from '../../../src/mints/mint-rate-limiter.ts';
import { type RequestOutcome, RouteRateLimiter } from '../../../src/mints/route-rate-limiter.ts';
import {
  createTestMintRateLimiter,
  expectGranted,
  FakeRateLimitStore,
} from '../../helpers/mints/mint-rate-limiter-fixture.ts';

const MINT_URL = 'https://mint.example';
const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const MAX_WAIT_MS = 8 * SECOND_MS;
const LATENCY_MS = 50;
const WINDOW_MS = 61_000;
const MAX_COOLDOWN_MS = 61_000;
const MAX_IN_FLIGHT = 16;
const MAX_WAITING_FOR_LIMIT = 64;
const MAX_WAITING_FOR_REQUESTS = 512;

const SUCCESS = { outcome: 'created' };
const RATE_LIMITED = { outcome: 'rate_limited', retryAfterMs: null };
const UNAVAILABLE = { outcome: 'unavailable', reason: 'connection refused' };

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

// test/outcomes/rate-limited-mints.test.ts covers a single process.
it('lets two processes share a limit whose window restarts with every request', async () => {
  vi.spyOn(Math, 'random').mockImplementation(seededRandom(1));
  const minutes = 120;
  const acceptsRequest = createElasticLimit(20);
  const acceptedAtMs = await simulate({ payersPerMinute: 60, minutes, acceptsRequest });
  expect(acceptedAtMs.length).toBeGreaterThan(5 * minutes);
  const pausesMs = acceptedAtMs.slice(1).map((atMs, index) => atMs - (acceptedAtMs[index] ?? 0));
  expect(Math.max(...pausesMs)).toBeLessThan(10 * MINUTE_MS);
});

describe('MintRateLimiter with an unresponsive mint', () => {
  it('logs once when the mint stops responding and once when it responds again', async () => {
    const { limiter, logEntries } = createTestMintRateLimiter();
    const failures = [UNAVAILABLE, UNAVAILABLE, RATE_LIMITED, UNAVAILABLE];
    for (const outcome of [SUCCESS, ...failures, SUCCESS, SUCCESS]) {
      const permit = expectGranted(
        await advanceUntilSettled(limiter.acquire(MINT_URL, 'create', { maxWaitMs: MINUTE_MS })),
      );
      permit.complete(outcome);
      await vi.advanceTimersByTimeAsync(outcome === SUCCESS ? 15 * SECOND_MS : 0);
    }
    expect(logEntries.map(({ event }) => event)).toEqual(['mint_unavailable', 'mint_available']);
    expect(logEntries[0]).toMatchObject({
      mintUrl: MINT_URL,
      route: 'create',
      reason: UNAVAILABLE.reason,
    });
  });
});

describe('MintRateLimiter.acquire', () => {
  it('limits each route and mint independently', async () => {
    const { limiter } = createTestMintRateLimiter();
    for (const outcome of [RATE_LIMITED, { outcome: 'rate_limited', retryAfterMs: MINUTE_MS }]) {
      expectGranted(await limiter.acquire(MINT_URL, 'create')).complete(outcome);
      await vi.advanceTimersByTimeAsync(2 * SECOND_MS);
    }
    expect((await limiter.acquire(MINT_URL, 'create')).outcome).toBe('rate_limited');
    expect((await limiter.acquire(MINT_URL, 'check')).outcome).toBe('granted');
    expect((await limiter.acquire(MINT_URL, 'socket')).outcome).toBe('granted');
    expect((await limiter.acquire('https://other.example', 'create')).outcome).toBe('granted');
    expect([limiter.getWaitMs(MINT_URL, 'create'), limiter.getWaitMs(MINT_URL, 'check')]).toEqual([
      MINUTE_MS - 2 * SECOND_MS,
      0,
    ]);
  });

  it('rejects immediately if the cooldown is longer than the max wait', async () => {
    const { limiter } = createTestMintRateLimiter();
    expectGranted(await limiter.acquire(MINT_URL, 'read')).complete({
      outcome: 'rate_limited',
      retryAfterMs: 5_000,
    });
    const rejection = { outcome: 'rate_limited', retryAfterMs: 5_000 };
    expect(await limiter.acquire(MINT_URL, 'read')).toEqual(rejection);
    expect(await limiter.acquire(MINT_URL, 'read', { maxWaitMs: 4_999 })).toEqual(rejection);
    const waiting = limiter.acquire(MINT_URL, 'read', { maxWaitMs: 5_001 });
    expect(expectGranted(await advanceUntilSettled(waiting))).toBeDefined();
  });

  it('rejects a queued caller if loading the stored limits takes longer than the max wait', async () => {
    const store = new FakeRateLimitStore();
    const { limiter } = createTestMintRateLimiter({ store });
    vi.spyOn(store, 'loadRateLimits').mockImplementation(async () => {
      await Promise.resolve();
      vi.advanceTimersByTime(MAX_WAIT_MS + 1);
    });
    const results = Array.from({ length: MAX_IN_FLIGHT + 1 }, () =>
      limiter.acquire(MINT_URL, 'create', { maxWaitMs: MAX_WAIT_MS }),
    );
    expect((await Promise.all(results)).at(-1)?.outcome).toBe('rate_limited');
  });

  it('rejects with a retry time when the max wait ends', async () => {
    const { limiter } = createTestMintRateLimiter();
    await startCooldown(limiter, 2 * SECOND_MS);
    const trialPermit = expectGranted(
      await advanceUntilSettled(limiter.acquire(MINT_URL, 'create', { maxWaitMs: MINUTE_MS })),
    );
    const waiting = limiter.acquire(MINT_URL, 'create', { maxWaitMs: 3 * SECOND_MS });
    await vi.advanceTimersByTimeAsync(SECOND_MS);
    trialPermit.complete({ outcome: 'rate_limited', retryAfterMs: 30 * SECOND_MS });
    await vi.advanceTimersByTimeAsync(SECOND_MS);
    expect(await Promise.race([waiting, Promise.resolve('pending')])).toBe('pending');
    await vi.advanceTimersByTimeAsync(SECOND_MS);
    expect(await waiting).toEqual({ outcome: 'rate_limited', retryAfterMs: 28 * SECOND_MS });
  });

  it('grants permits in the order of the calls', async () => {
    const { limiter } = createTestMintRateLimiter();
    await startCooldown(limiter, 2 * SECOND_MS);
    const order: number[] = [];
    for (const caller of [1, 2, 3, 4, 5]) {
      void limiter.acquire(MINT_URL, 'create', { maxWaitMs: MINUTE_MS }).then((acquired) => {
        order.push(caller);
        expectGranted(acquired).complete(SUCCESS);
      });
    }
    await vi.advanceTimersByTimeAsync(2 * SECOND_MS);
    expect(order).toEqual([1, 2, 3, 4, 5]);
  });

  it('grants permits first to the address group with the fewest pending requests', async () => {
    const { limiter } = createTestMintRateLimiter();
    const acquiredByMany = await Promise.all(
      Array.from({ length: MAX_IN_FLIGHT }, () =>
        limiter.acquire(MINT_URL, 'create', { addressGroup: 'many' }),
      ),
    );
    const order: string[] = [];
    for (const addressGroup of ['many', 'many', 'few', 'few']) {
      void limiter
        .acquire(MINT_URL, 'create', { addressGroup, maxWaitMs: MINUTE_MS })
        .then(() => order.push(addressGroup));
    }
    await vi.advanceTimersByTimeAsync(0);
    expect(order).toEqual([]);
    for (const acquired of acquiredByMany) {
      expectGranted(acquired).complete(SUCCESS);
      await vi.advanceTimersByTimeAsync(0);
    }
    expect(order).toEqual(['few', 'few', 'many', 'many']);
  });

  it('grants a permit to the next caller after a permit is cancelled', async () => {
    const { limiter, finishedRequests } = createTestMintRateLimiter();
    await startCooldown(limiter, 2 * SECOND_MS);
    const firstPermit = expectGranted(
      await advanceUntilSettled(limiter.acquire(MINT_URL, 'create', { maxWaitMs: MINUTE_MS })),
    );
    const secondResult = limiter.acquire(MINT_URL, 'create', { maxWaitMs: MINUTE_MS });
    await vi.advanceTimersByTimeAsync(0);
    firstPermit.cancel();
    expect((await secondResult).outcome).toBe('granted');
    expect(finishedRequests).toHaveLength(1);
  });

  it('rejects a caller when 64 callers wait for a limit, and queues callers again later', async () => {
    const { limiter } = createTestMintRateLimiter();
    await startCooldown(limiter, MINUTE_MS);
    const options = { maxWaitMs: 2 * MINUTE_MS };
    for (let i = 0; i < MAX_WAITING_FOR_LIMIT; i += 1) {
      void limiter.acquire(MINT_URL, 'create', options);
    }
    await vi.advanceTimersByTimeAsync(0);
    expect((await limiter.acquire(MINT_URL, 'create', options)).outcome).toBe('rate_limited');
    await vi.advanceTimersByTimeAsync(MINUTE_MS);
    const waiting = limiter.acquire(MINT_URL, 'create', options);
    await vi.advanceTimersByTimeAsync(0);
    expect(await Promise.race([waiting, Promise.resolve('pending')])).toBe('pending');
  });

  it('lets 512 callers wait for other requests to complete', async () => {
    const { limiter } = createTestMintRateLimiter();
    const options = { maxWaitMs: MINUTE_MS };
    const calls = Array.from({ length: MAX_IN_FLIGHT + MAX_WAITING_FOR_REQUESTS }, () =>
      limiter.acquire(MINT_URL, 'create', options),
    );
    await vi.advanceTimersByTimeAsync(0);
    expect((await limiter.acquire(MINT_URL, 'create', options)).outcome).toBe('rate_limited');
    for (const call of calls) {
      expectGranted(await call).complete(SUCCESS);
    }
  });

  it('rejects callers of the address group with the most when the queue is full', async () => {
    const { limiter } = createTestMintRateLimiter();
    await startCooldown(limiter, 2 * SECOND_MS);
    const acquire = (addressGroup: string) =>
      limiter.acquire(MINT_URL, 'create', { addressGroup, maxWaitMs: MINUTE_MS });
    const many = Array.from({ length: MAX_WAITING_FOR_LIMIT }, () => acquire('many'));
    void acquire('few');
    void acquire('few');
    await vi.advanceTimersByTimeAsync(0);
    const rejected = await Promise.all(many.slice(-2));
    expect(rejected.map(({ outcome }) => outcome)).toEqual(['rate_limited', 'rate_limited']);
    expect((await acquire('many')).outcome).toBe('rate_limited');
    await vi.advanceTimersByTimeAsync(2 * SECOND_MS);
    const [first] = many;
    expect(first && (await first).outcome).toBe('granted');
  });

  it('takes little time when 1,000 payers wait for a limit of thousands of requests', async () => {
    const store = new FakeRateLimitStore();
    store.limits.set(MINT_URL, { create: { count: 3_900, isElastic: false } });
    const { limiter } = createTestMintRateLimiter({ store });
    for (let request = 0; request < 3_700; request += 1) {
      const addressGroup = `group-${request % 1_000}`;
      expectGranted(await limiter.acquire(MINT_URL, 'create', { addressGroup })).complete(SUCCESS);
    }
    const startedAt = process.cpuUsage();
    const outcomes = Array.from({ length: 1_000 }, (_, index) =>
      limiter.acquire(MINT_URL, 'create', {
        addressGroup: `group-${index}`,
        maxWaitMs: 2 * MINUTE_MS,
      }),
    );
    await vi.advanceTimersByTimeAsync(0);
    const { user, system } = process.cpuUsage(startedAt);
    expect((user + system) / 1_000).toBeLessThan(250);
    await vi.advanceTimersByTimeAsync(2 * MINUTE_MS);
    await Promise.all(outcomes);
  });

  it('does not check each of the callers of an address group again whenever another one arrives', async () => {
    const { limiter } = createTestMintRateLimiter();
    await startCooldown(limiter, MINUTE_MS);
    const getWaitMs = vi.spyOn(RouteRateLimiter.prototype, 'getWaitMs');
    const options = { addressGroup: '192.0.2.1', maxWaitMs: 2 * MINUTE_MS };
    for (let i = 0; i < MAX_WAITING_FOR_LIMIT; i += 1) {
      void limiter.acquire(MINT_URL, 'create', options);
    }
    await vi.advanceTimersByTimeAsync(0);
    expect(getWaitMs.mock.calls.length).toBeLessThan(5 * MAX_WAITING_FOR_LIMIT);
  });

  it('reports every finished request with its duration', async () => {
    const { limiter, finishedRequests } = createTestMintRateLimiter();
    const permit = expectGranted(await limiter.acquire(MINT_URL, 'swap'));
    await vi.advanceTimersByTimeAsync(120);
    permit.complete({ outcome: 'swapped' });
    expect(finishedRequests).toEqual([
      { mintUrl: MINT_URL, route: 'swap', outcome: 'swapped', durationMs: 120 },
    ]);
  });
});

describe('a learned limit of MintRateLimiter', () => {
  it('is stored, logged and reported, and applies in another process from its first request', async () => {
    const store = new FakeRateLimitStore();
    const firstProcess = createTestMintRateLimiter({ store });
    await learnLimit(firstProcess.limiter, 3);
    expect(store.limits.get(MINT_URL)).toEqual({ create: { count: 3, isElastic: false } });
    expect(firstProcess.logEntries).toMatchObject([
      { event: 'mint_rate_limit_changed', route: 'create' },
    ]);
    expect(firstProcess.limiter.hasLearnedLimit(MINT_URL, 'create')).toBe(true);
    expect(firstProcess.limiter.getStatus(MINT_URL)).toMatchObject([
      { route: 'create', cooldownMs: MAX_COOLDOWN_MS, limit: { perWindow: 3, used: 3 } },
    ]);
    const secondProcess = createTestMintRateLimiter({ store });
    // The limiter uses one request less than the limit, because the mint may count differently.
    expectGranted(await secondProcess.limiter.acquire(MINT_URL, 'create')).complete(SUCCESS);
    expectGranted(await secondProcess.limiter.acquire(MINT_URL, 'create')).complete(SUCCESS);
    expect(await secondProcess.limiter.acquire(MINT_URL, 'create')).toMatchObject({
      outcome: 'rate_limited',
      retryAfterMs: WINDOW_MS,
    });
  });

  it('is loaded again by a process that receives a 429', async () => {
    const store = new FakeRateLimitStore();
    const { limiter } = createTestMintRateLimiter({ store });
    expectGranted(await limiter.acquire(MINT_URL, 'create')).complete(SUCCESS);
    store.limits.set(MINT_URL, { create: { count: 1, isElastic: true } });
    expectGranted(await limiter.acquire(MINT_URL, 'create')).complete(RATE_LIMITED);
    await vi.advanceTimersByTimeAsync(0);
    expect(limiter.hasLearnedLimit(MINT_URL, 'create')).toBe(true);
  });

  it('is raised, then removed, when requests beyond the limit succeed', async () => {
    const store = new FakeRateLimitStore();
    store.limits.set(MINT_URL, {
      create: { count: 2, isElastic: false },
      check: { count: 20, isElastic: true },
    });
    const { limiter, logEntries } = createTestMintRateLimiter({ store });
    await limiter.acquire(MINT_URL, 'info');
    await vi.advanceTimersByTimeAsync(2 * MINUTE_MS);
    for (let i = 0; i < 6; i += 1) {
      expectGranted(await limiter.acquire(MINT_URL, 'create')).complete(SUCCESS);
    }
    expect(store.limits.get(MINT_URL)).toEqual({ check: { count: 20, isElastic: true } });
    expect(logEntries.map(({ limit }) => limit)).toEqual([{ count: 3, isElastic: false }, null]);
  });

  it('applies even if the database is unavailable', async () => {
    const store = new FakeRateLimitStore();
    store.isUnavailable = true;
    const { limiter, logEntries } = createTestMintRateLimiter({ store });
    await learnLimit(limiter, 3);
    expect(limiter.hasLearnedLimit(MINT_URL, 'create')).toBe(true);
    await vi.advanceTimersByTimeAsync(0);
    const events = logEntries.map(({ event }) => event);
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

/** Accepts this many requests, and then no request until a minute without requests has passed. */
function createElasticLimit(count: number): () => boolean {
  let lastAtMs = Number.NEGATIVE_INFINITY;
  let requestCount = 0;
  return () => {
    requestCount = performance.now() - lastAtMs >= MINUTE_MS ? 1 : requestCount + 1;
    lastAtMs = performance.now();
    return requestCount <= count;
  };
}

/**
 * Simulates payers who arrive at an even pace and retry once. Two processes with one database serve them.
 *
 * @returns the times at which the mint accepted requests
 */
async function simulate(options: {
  payersPerMinute: number;
  minutes: number;
  acceptsRequest: () => boolean;
}): Promise<number[]> {
  const { payersPerMinute, minutes, acceptsRequest } = options;
  const store = new FakeRateLimitStore();
  const limiters = Array.from({ length: 2 }, () => createTestMintRateLimiter({ store }).limiter);
  const acceptedAtMs: number[] = [];
  const sendToMint = async () => {
    await delay(LATENCY_MS);
    const isAccepted = acceptsRequest();
    if (isAccepted) {
      acceptedAtMs.push(performance.now());
    }
    return isAccepted ? SUCCESS : RATE_LIMITED;
  };
  for (let index = 0; index < payersPerMinute * minutes; index += 1) {
    const limiter = limiters[index % 2] as MintRateLimiter;
    setTimeout(
      () => void sendAsPayer(limiter, `group ${index % 5}`, sendToMint),
      (index * MINUTE_MS) / payersPerMinute,
    );
  }
  await vi.advanceTimersByTimeAsync(minutes * MINUTE_MS);
  return acceptedAtMs;
}

async function sendAsPayer(
  limiter: MintRateLimiter,
  addressGroup: string,
  sendToMint: () => Promise<RequestOutcome>,
): Promise<void> {
  const deadlineMs = performance.now() + MAX_WAIT_MS;
  for (let attempt = 0; attempt < 2; attempt += 1) {
    const maxWaitMs = Math.max(1, deadlineMs - performance.now());
    const acquired = await limiter.acquire(MINT_URL, 'create', { addressGroup, maxWaitMs });
    if (acquired.outcome === 'rate_limited') {
      return;
    }
    const result = await sendToMint();
    acquired.permit.complete(result);
    if (result === SUCCESS) {
      return;
    }
  }
}

/** Creates a linear congruential generator of numbers from 0 to 1. */
function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

/** Starts a cooldown of the route `create`. */
async function startCooldown(limiter: MintRateLimiter, retryAfterMs: number): Promise<void> {
  expectGranted(await limiter.acquire(MINT_URL, 'create')).complete({
    outcome: 'rate_limited',
    retryAfterMs,
  });
}

/** Makes the limiter learn a limit of the route `create`. */
async function learnLimit(limiter: MintRateLimiter, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    expectGranted(await limiter.acquire(MINT_URL, 'create')).complete(SUCCESS);
  }
  const rejectionsToLearn = 3;
  for (let i = 0; i < rejectionsToLearn; i += 1) {
    const acquired = await advanceUntilSettled(
      limiter.acquire(MINT_URL, 'create', { maxWaitMs: MINUTE_MS }),
    );
    expectGranted(acquired).complete(RATE_LIMITED);
  }
  await vi.advanceTimersByTimeAsync(0);
}

/** Advances the fake timers until the promise is settled. */
async function advanceUntilSettled<T>(promise: Promise<T>): Promise<T> {
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
