import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { EcashClient } from '../../src/mints/ecash-client.ts';
import { MintClient } from '../../src/mints/mint-client.ts';
import type { MintRoute } from '../../src/mints/mint-rate-limiter.ts';
import type { GuardedResponse } from '../../src/net/guarded-fetch.ts';
import { createTestRateLimiter, expectGranted } from '../helpers/test-mint-rate-limiter.ts';

const MINT = 'https://mint.example';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

describe('requests to a mint', () => {
  it('are counted by route', async () => {
    const setup = createClients();
    for (const [, send] of everyRequest(setup)) {
      await send();
    }
    await setup.ecash.readKeys(MINT, '00aa');
    const routes = everyRequest(setup).map(([route]) => route);
    expect(setup.finished.map(({ route }) => route)).toEqual([...routes, 'keys']);
  });

  it('are not sent while their route cools down', async () => {
    const setup = createClients();
    for (const [route, send] of everyRequest(setup)) {
      expectGranted(await setup.limiter.acquire(MINT, route)).complete({
        outcome: 'rate_limited',
        retryAfterMs: 30_000,
      });
      const { length } = setup.sent;
      expect(await send()).toEqual({ outcome: 'rate_limited', retryAfterMs: 30_000 });
      expect(setup.sent).toHaveLength(length);
    }
  });

  it('for ecash wait for a short cooldown', async () => {
    const setup = createClients();
    setup.answer = answered(429);
    await setup.ecash.swap(MINT, [], []);
    setup.answer = answered(400);
    const swapped = setup.ecash.swap(MINT, [], []);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(await swapped).toMatchObject({ outcome: 'rejected' });
  });

  it('are not retried', async () => {
    const setup = createClients();
    setup.answer = answered(500);
    expect(await setup.ecash.swap(MINT, [], [])).toMatchObject({ reason: 'status 500' });
    expect(await setup.mints.readInfo(MINT)).toMatchObject({ reason: 'status 500' });
    expect(setup.sent).toHaveLength(2);
  });

  it.each(['too many requests in flight', 'closed'] as const)(
    'do not count if this process stopped them: %s',
    async (reason) => {
      const setup = createClients();
      setup.answer = { outcome: 'unreachable', reason };
      const notSent = { outcome: 'rate_limited', retryAfterMs: 0 };
      expect(await setup.mints.readInfo(MINT)).toEqual(notSent);
      expect(setup.finished).toEqual([]);
    },
  );

  it('count a swap that was cut off as not sent only if the mint cannot have it', async () => {
    const setup = createClients();
    setup.answer = { outcome: 'unreachable', reason: 'closed', isUnsent: true };
    expect(await setup.ecash.swap(MINT, [], [])).toEqual({
      outcome: 'rate_limited',
      retryAfterMs: 0,
    });
    setup.answer = { outcome: 'unreachable', reason: 'closed' };
    expect(await setup.ecash.swap(MINT, [], [])).toEqual({
      outcome: 'unavailable',
      reason: 'closed',
    });
    expect(setup.finished).toEqual([]);
  });

  it('release their permits after an exception', async () => {
    const setup = createClients();
    setup.answer = new Error('a bug');
    for (let count = 0; count < 20; count += 1) {
      await expect(setup.mints.readInfo(MINT)).rejects.toThrow('a bug');
    }
    setup.answer = answered(404);
    expect(await setup.mints.readInfo(MINT)).toEqual({ outcome: 'invalid' });
  });
});

/** Creates clients of a mint that returns one response to every request. */
function createClients() {
  const { limiter, finished } = createTestRateLimiter();
  const setup = { answer: answered(400) as GuardedResponse | Error, sent: [] as string[] };
  const fetch = {
    request: async ({ url }: { url: string }) => {
      setup.sent.push(url);
      if (setup.answer instanceof Error) {
        throw setup.answer;
      }
      return setup.answer;
    },
  };
  const parts = { fetch, clock: () => 1_800_000_000_000, limiter };
  return Object.assign(setup, {
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

function answered(status: number): GuardedResponse {
  return { outcome: 'responded', status, headers: new Map(), text: '{}' };
}
