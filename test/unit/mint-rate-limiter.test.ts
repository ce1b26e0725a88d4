import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type MintRateLimiter, parseKnownLimits } from '../../src/mint/mint-rate-limiter.ts';
import type { RequestOutcome } from '../../src/mint/route-limit.ts';
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

describe('a mint that allows 20 requests in any minute', () => {
  it.each([
    [21, 1],
    [21, 5],
    [600, 1],
    [600, 5],
  ])(
    'gives 15 invoices a minute to %i payers a minute of %i address groups, and hardly a 429',
    async (payersAMinute, groups) => {
      const mint = new SimulatedMint(slidingLimit(20));
      await simulate(mint, { payersAMinute, groups, minutes: 10 });
      expect(mint.acceptedAtMs.length).toBeGreaterThanOrEqual(150);
      expect(mint.refusals).toBeLessThan(10);
      const settled = countsPerMinute(mint.acceptedAtMs, 10).slice(2);
      expect(Math.min(...settled)).toBeGreaterThanOrEqual(15);
    },
  );

  it('leaves about half to the others if one address group asks for far more', async () => {
    const mint = new SimulatedMint(slidingLimit(20));
    const payers = await simulate(mint, {
      payersAMinute: 120,
      minutes: 10,
      groupOf: (payer) => (payer % 10 === 0 ? 'modest' : 'greedy'),
    });
    const modest = payers.filter(
      ({ askedAtMs, addressGroup }) => askedAtMs > 2 * MINUTE && addressGroup === 'modest',
    );
    const served = modest.filter(({ isServed }) => isServed);
    expect(served.length / 8).toBeGreaterThanOrEqual(7);
  });
});

describe('a mint that allows 20 requests and then wants a quiet minute, like Nutshell', () => {
  it.each([1, 5])(
    'gives 12 invoices a minute to 600 payers a minute of %i address groups, never locked out for long',
    async (groups) => {
      const mint = new SimulatedMint(elasticLimit(20));
      await simulate(mint, { payersAMinute: 600, groups, minutes: 10 });
      expect(mint.acceptedAtMs.length).toBeGreaterThanOrEqual(120);
      expect(longestGapMs(mint.acceptedAtMs)).toBeLessThanOrEqual(70 * SECOND);
      expect(mint.refusals).toBeLessThan(10);
    },
  );

  it('serves two processes, although each restarts the minute that the other waits for', async () => {
    vi.spyOn(Math, 'random').mockImplementation(seededRandom(1));
    const mint = new SimulatedMint(elasticLimit(20));
    await simulate(mint, { payersAMinute: 60, groups: 5, minutes: 120, processes: 2 });
    expect(mint.acceptedAtMs.length).toBeGreaterThan(120 * 5);
    expect(longestGapMs(mint.acceptedAtMs)).toBeLessThan(10 * MINUTE);
  });

  it('gives nearly all that is possible to few payers', async () => {
    const mint = new SimulatedMint(elasticLimit(20));
    await simulate(mint, { payersAMinute: 10, groups: 5, minutes: 20 });
    expect(mint.acceptedAtMs.length).toBeGreaterThanOrEqual(6 * 20);
  });
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

interface Payer {
  askedAtMs: number;
  addressGroup: string;
  isServed: boolean;
}

/** Whether a simulated mint accepts a request at a time. */
type Policy = (atMs: number) => boolean;

/** A mint in virtual time. Times are milliseconds since the simulation began. */
class SimulatedMint {
  readonly acceptedAtMs: number[] = [];
  refusals = 0;
  readonly #policy: Policy;

  constructor(policy: Policy) {
    this.#policy = policy;
  }

  /** A request takes {@link LATENCY_MS}; the mint counts it halfway. */
  async ask(startedAtMs: number): Promise<RequestOutcome> {
    await delay(LATENCY_MS / 2);
    const atMs = performance.now() - startedAtMs;
    const isAccepted = this.#policy(atMs);
    if (isAccepted) {
      this.acceptedAtMs.push(atMs);
    } else {
      this.refusals += 1;
    }
    await delay(LATENCY_MS / 2);
    return isAccepted ? SUCCESS : BARE_429;
  }
}

/** At most so many accepted requests in any minute. */
function slidingLimit(perMinute: number): Policy {
  let accepted: number[] = [];
  return (atMs) => {
    accepted = accepted.filter((each) => atMs - each < MINUTE);
    const isAccepted = accepted.length < perMinute;
    if (isAccepted) {
      accepted.push(atMs);
    }
    return isAccepted;
  };
}

/** So many requests, and then none until a minute passed without any. */
function elasticLimit(count: number): Policy {
  let lastAtMs = Number.NEGATIVE_INFINITY;
  let requests = 0;
  return (atMs) => {
    requests = atMs - lastAtMs >= MINUTE ? 1 : requests + 1;
    lastAtMs = atMs;
    return requests <= count;
  };
}

/** Payers who come at an even pace, and each ask again once within their patience. */
async function simulate(
  mint: SimulatedMint,
  options: {
    payersAMinute: number;
    minutes: number;
    groups?: number;
    groupOf?: (payer: number) => string;
    /** Default 1. They have one database. */
    processes?: number;
  },
): Promise<Payer[]> {
  const { payersAMinute, minutes, groups = 1, processes = 1 } = options;
  const groupOf = options.groupOf ?? ((payer: number) => `group ${payer % groups}`);
  const store = new FakeLimitStore();
  const limiters = Array.from({ length: processes }, () => createLimiter({ store }).limiter);
  const startedAtMs = performance.now();
  const payers: Payer[] = [];
  for (let index = 0; index < payersAMinute * minutes; index += 1) {
    const addressGroup = groupOf(index);
    const come = async () => {
      const askedAtMs = performance.now();
      const limiter = limiters[index % processes] as MintRateLimiter;
      const isServed = await pay(limiter, mint, addressGroup, startedAtMs);
      payers.push({ askedAtMs: askedAtMs - startedAtMs, addressGroup, isServed });
    };
    setTimeout(() => void come(), (index * MINUTE) / payersAMinute);
  }
  await vi.advanceTimersByTimeAsync(minutes * MINUTE);
  return payers;
}

async function pay(
  limiter: MintRateLimiter,
  mint: SimulatedMint,
  addressGroup: string,
  startedAtMs: number,
): Promise<boolean> {
  const untilMs = performance.now() + PATIENCE_MS;
  for (let attempt = 0; attempt < 2; attempt += 1) {
    const patienceMs = Math.max(1, untilMs - performance.now());
    const acquired = await limiter.acquire(MINT, 'create', { addressGroup, patienceMs });
    if (acquired.outcome === 'rate_limited') {
      return false;
    }
    const answer = await mint.ask(startedAtMs);
    acquired.permit.settle(answer);
    if (answer === SUCCESS) {
      return true;
    }
  }
  return false;
}

function countsPerMinute(timesMs: readonly number[], minutes: number): number[] {
  return Array.from(
    { length: minutes },
    (_, minute) => timesMs.filter((atMs) => Math.floor(atMs / MINUTE) === minute).length,
  );
}

function longestGapMs(timesMs: readonly number[]): number {
  return Math.max(...timesMs.slice(1).map((atMs, index) => atMs - (timesMs[index] ?? 0)));
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
