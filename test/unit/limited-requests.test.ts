import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { EcashClient } from '../../src/mints/ecash-client.ts';
import { MintClient } from '../../src/mints/mint-client.ts';
import type { MintRoute } from '../../src/mints/mint-rate-limiter.ts';
import type { GuardedAnswer } from '../../src/net/guarded-fetch.ts';
import { createLimiter, granted } from '../helpers/test-limiter.ts';

const MINT = 'https://mint.example';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

describe('requests to a mint', () => {
  it('are counted by their route', async () => {
    const world = createClients();
    for (const [, send] of everyRequest(world)) {
      await send();
    }
    await world.ecash.readKeys(MINT, '00aa');
    const routes = everyRequest(world).map(([route]) => route);
    expect(world.finished.map(({ route }) => route)).toEqual([...routes, 'keys']);
  });

  it('are not sent while their route rests', async () => {
    const world = createClients();
    for (const [route, send] of everyRequest(world)) {
      granted(await world.limiter.acquire(MINT, route)).settle({
        outcome: 'rate_limited',
        retryAfterMs: 30_000,
      });
      const { length } = world.sent;
      expect(await send()).toEqual({ outcome: 'rate_limited', retryAfterMs: 30_000 });
      expect(world.sent).toHaveLength(length);
    }
  });

  it('for ecash wait for a short rest', async () => {
    const world = createClients();
    world.answer = answered(429);
    await world.ecash.swap(MINT, [], []);
    world.answer = answered(400);
    const swapped = world.ecash.swap(MINT, [], []);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(await swapped).toMatchObject({ outcome: 'refused' });
  });

  it('are not repeated', async () => {
    const world = createClients();
    world.answer = answered(500);
    expect(await world.ecash.swap(MINT, [], [])).toMatchObject({ reason: 'status 500' });
    expect(await world.mints.readInfo(MINT)).toMatchObject({ reason: 'status 500' });
    expect(world.sent).toHaveLength(2);
  });

  it.each(['too many requests in flight', 'closed'] as const)(
    'do not count if this process stopped them: %s',
    async (reason) => {
      const world = createClients();
      world.answer = { outcome: 'unreachable', reason };
      const notSent = { outcome: 'rate_limited', retryAfterMs: 0 };
      expect(await world.mints.readInfo(MINT)).toEqual(notSent);
      expect(world.finished).toEqual([]);
    },
  );

  it('count a swap that was cut off as not sent only if the mint cannot have it', async () => {
    const world = createClients();
    world.answer = { outcome: 'unreachable', reason: 'closed', isUnsent: true };
    expect(await world.ecash.swap(MINT, [], [])).toEqual({
      outcome: 'rate_limited',
      retryAfterMs: 0,
    });
    world.answer = { outcome: 'unreachable', reason: 'closed' };
    expect(await world.ecash.swap(MINT, [], [])).toEqual({
      outcome: 'unavailable',
      reason: 'closed',
    });
    expect(world.finished).toEqual([]);
  });

  it('give their permits back after an exception', async () => {
    const world = createClients();
    world.answer = new Error('a bug');
    for (let count = 0; count < 20; count += 1) {
      await expect(world.mints.readInfo(MINT)).rejects.toThrow('a bug');
    }
    world.answer = answered(404);
    expect(await world.mints.readInfo(MINT)).toEqual({ outcome: 'invalid' });
  });
});

/** Clients of a mint that gives one answer to everything. */
function createClients() {
  const { limiter, finished } = createLimiter();
  const world = { answer: answered(400) as GuardedAnswer | Error, sent: [] as string[] };
  const fetch = {
    request: async ({ url }: { url: string }) => {
      world.sent.push(url);
      if (world.answer instanceof Error) {
        throw world.answer;
      }
      return world.answer;
    },
  };
  const parts = { fetch, clock: () => 1_800_000_000_000, limiter };
  return Object.assign(world, {
    mints: new MintClient(parts),
    ecash: new EcashClient(parts),
    limiter,
    finished,
  });
}

type Clients = ReturnType<typeof createClients>;

function everyRequest({ mints, ecash, limiter }: Clients): [MintRoute, () => Promise<unknown>][] {
  return [
    ['info', () => mints.readInfo(MINT)],
    ['read', () => mints.readQuote(MINT, 'q')],
    ['check', () => mints.checkQuotes(MINT, ['q'])],
    ['create', () => createQuote(mints, limiter)],
    ['swap', () => ecash.swap(MINT, [], [])],
    ['state', () => ecash.checkState(MINT, [])],
    ['restore', () => ecash.restore(MINT, [])],
    ['keys', () => ecash.readKeysets(MINT)],
  ];
}

async function createQuote(mints: MintClient, limiter: Clients['limiter']): Promise<unknown> {
  const acquired = await limiter.acquire(MINT, 'create');
  return acquired.outcome === 'granted'
    ? await mints.createQuote(MINT, { amountSat: 21 }, acquired.permit)
    : acquired;
}

function answered(status: number): GuardedAnswer {
  return { outcome: 'answered', status, headers: new Map(), text: '{}' };
}
