import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { EcashClient } from '../../../src/mints/ecash-client.ts';
import { MintClient } from '../../../src/mints/mint-client.ts';
import type { MintRoute } from '../../../src/mints/mint-rate-limiter.ts';
import type { HttpResponse } from '../../../src/net/http-client.ts';
import {
  createTestMintRateLimiter,
  expectGranted,
} from '../../helpers/mints/mint-rate-limiter-fixture.ts';

const MINT_URL = 'https://mint.example';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

describe('MintClient and EcashClient', () => {
  it('sends each request on its route, and none while the route cools down', async () => {
    const clients = createClientsOfFakeMint();
    for (const [route, send] of listRequestFunctions(clients)) {
      await send();
      expect(clients.finishedRequests.at(-1)?.route).toBe(route);
      using slot = expectGranted(await clients.limiter.acquire(MINT_URL, route));
      slot.finish({ outcome: 'rate_limited', retryAfterMs: 30_000 });
      const sentCount = clients.sentUrls.length;
      expect(await send()).toEqual({ outcome: 'rate_limited', retryAfterMs: 30_000 });
      expect(clients.sentUrls).toHaveLength(sentCount);
    }
  });

  it.each(['too many requests in flight', 'closed'] as const)(
    'does not report a request as finished if this process aborted it: %s',
    async (reason) => {
      const clients = createClientsOfFakeMint();
      clients.response = { outcome: 'unreachable', reason };
      const expected = { outcome: 'rate_limited', retryAfterMs: 0 };
      expect(await clients.mints.readInfo(MINT_URL)).toEqual(expected);
      expect(clients.finishedRequests).toEqual([]);
    },
  );

  it('returns "rate_limited" for an aborted swap only if the swap was not sent', async () => {
    const clients = createClientsOfFakeMint();
    clients.response = { outcome: 'unreachable', reason: 'closed', isUnsent: true };
    expect(await clients.ecash.swap(MINT_URL, [], [])).toEqual({
      outcome: 'rate_limited',
      retryAfterMs: 0,
    });
    clients.response = { outcome: 'unreachable', reason: 'closed' };
    expect(await clients.ecash.swap(MINT_URL, [], [])).toEqual({
      outcome: 'unavailable',
      reason: 'closed',
    });
    expect(clients.finishedRequests).toEqual([]);
  });
});

function createClientsOfFakeMint() {
  const { limiter, finishedRequests } = createTestMintRateLimiter();
  const clients = {
    response: respondedWith(400),
    sentUrls: [] as string[],
  };
  const fetch = {
    request: async ({ url }: { url: string }) => {
      clients.sentUrls.push(url);
      return clients.response;
    },
  };
  const deps = { fetch, clock: () => 1_800_000_000_000, limiter };
  return Object.assign(clients, {
    mints: new MintClient(deps),
    ecash: new EcashClient(deps),
    limiter,
    finishedRequests,
  });
}

type Clients = ReturnType<typeof createClientsOfFakeMint>;

function listRequestFunctions({ mints, ecash }: Clients): [MintRoute, () => Promise<unknown>][] {
  return [
    ['info', () => mints.readInfo(MINT_URL)],
    ['read', () => mints.readQuote(MINT_URL, 'quote-id')],
    ['check', () => mints.checkQuotes(MINT_URL, ['quote-id'])],
    ['create', () => mints.createQuote(MINT_URL, { amountSat: 21 })],
    ['swap', () => ecash.swap(MINT_URL, [], [])],
    ['state', () => ecash.checkState(MINT_URL, [])],
    ['restore', () => ecash.restore(MINT_URL, [])],
    ['keys', () => ecash.readKeysets(MINT_URL)],
  ];
}

function respondedWith(status: number): HttpResponse {
  return { outcome: 'responded', status, headers: new Map(), json: {}, text: '' };
}
