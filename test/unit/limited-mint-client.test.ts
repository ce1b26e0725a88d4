import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { LimitedMintClient } from '../../src/mint/limited-mint-client.ts';
import type { CreateQuoteAnswer } from '../../src/mint/mint-client.ts';
import { createLimiter, granted } from '../helpers/test-limiter.ts';

const MINT = 'https://mint.example';
const SECOND = 1_000;
const MINUTE = 60 * SECOND;

const CREATED: CreateQuoteAnswer = {
  outcome: 'created',
  quote: { quoteId: 'q', request: 'lnbc1', expiry: null, amountSat: 21, pubkey: null },
};
const REFUSED: CreateQuoteAnswer = { outcome: 'refused', status: 400, detail: 'no' };
const BUSY: CreateQuoteAnswer = { outcome: 'unavailable', reason: 'status 500' };
const TIMED_OUT: CreateQuoteAnswer = { outcome: 'unavailable', reason: 'timed out' };
const BARE_429: CreateQuoteAnswer = { outcome: 'rate_limited', retryAfterMs: null };

const PLAIN = { amountSat: 21 };
const DESCRIBED = { amountSat: 21, descriptionHash: 'ab'.repeat(32) };

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  // The monotonic clock of a process is never at 0, which `lru-cache` takes for no time at all.
  vi.advanceTimersByTime(SECOND);
});
afterEach(() => {
  vi.useRealTimers();
});

describe('creating a quote', () => {
  it('uses the permit of the caller for one request and returns the answer', async () => {
    const { create, orders, finished } = createClient(CREATED);
    expect(await create(DESCRIBED)).toBe(CREATED);
    expect(orders).toEqual([DESCRIBED]);
    expect(finished).toMatchObject([{ mintUrl: MINT, route: 'create', outcome: 'created' }]);
  });

  it('retries once after a stray 429, when the rest is over', async () => {
    const { create, orders } = createClient(BARE_429, CREATED);
    const created = create(DESCRIBED);
    await vi.advanceTimersByTimeAsync(2 * SECOND - 1);
    expect(orders).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(await created).toBe(CREATED);
    expect(orders).toEqual([DESCRIBED, DESCRIBED]);
  });

  it('does not retry a second time', async () => {
    const { create, orders } = createClient(BARE_429, BARE_429, CREATED);
    const created = create(PLAIN);
    await vi.advanceTimersByTimeAsync(MINUTE);
    expect(await created).toMatchObject({ outcome: 'rate_limited' });
    expect(orders).toHaveLength(2);
  });

  it('does not wait for a rest that is longer than the patience of a payer', async () => {
    const { create, orders } = createClient({ outcome: 'rate_limited', retryAfterMs: 30_000 });
    expect(await create(PLAIN)).toEqual({ outcome: 'rate_limited', retryAfterMs: 30_000 });
    expect(orders).toHaveLength(1);
  });

  it('retries once if the mint was busy', async () => {
    const { create, orders } = createClient(BUSY, CREATED);
    expect(await create(PLAIN)).toBe(CREATED);
    expect(orders).toEqual([PLAIN, PLAIN]);
  });

  it('returns the failure of a mint that stays busy', async () => {
    const { create, orders } = createClient(BUSY, BUSY);
    expect(await create(PLAIN)).toBe(BUSY);
    expect(orders).toHaveLength(2);
  });

  it('returns a first failure if the mint may not be asked again soon', async () => {
    const { create, orders, limiter } = createClient(BUSY);
    const waiting = create(PLAIN, async () => {
      granted(await limiter.acquire(MINT, 'create')).settle({
        outcome: 'rate_limited',
        retryAfterMs: MINUTE,
      });
    });
    expect(await waiting).toBe(BUSY);
    expect(orders).toHaveLength(1);
  });

  it.each([
    ['a refusal without a description', PLAIN, REFUSED],
    ['another failure', DESCRIBED, TIMED_OUT],
  ])('does not retry after %s', async (_what, order, answer) => {
    const { create, orders } = createClient(answer);
    expect(await create(order)).toBe(answer);
    expect(orders).toHaveLength(1);
  });

  it.each(['too many requests in flight', 'closed'])(
    'does not blame the mint for a request that this process stopped: %s',
    async (reason) => {
      const stopped: CreateQuoteAnswer = { outcome: 'unavailable', reason };
      const { create, finished } = createClient(stopped, stopped);
      expect(await create(PLAIN)).toEqual({ outcome: 'rate_limited', retryAfterMs: 0 });
      expect(finished).toEqual([]);
    },
  );

  it('gives the permit back after an exception', async () => {
    const { create } = createClient(
      ...Array.from({ length: 20 }, () => new Error('a bug')),
      CREATED,
    );
    for (let count = 0; count < 20; count += 1) {
      await expect(create(PLAIN)).rejects.toThrow('a bug');
    }
    expect(await create(PLAIN)).toBe(CREATED);
  });
});

describe.each<[string, CreateQuoteAnswer]>([
  ['500', BUSY],
  ['a refusal', REFUSED],
])('a description that the mint answers with %s', (_what, trouble) => {
  it('is left out of a second request, and of others for five minutes', async () => {
    const { create, orders, logged } = createClient(trouble, CREATED, CREATED, CREATED);
    expect(await create(DESCRIBED)).toBe(CREATED);
    await vi.advanceTimersByTimeAsync(5 * MINUTE);
    await create(DESCRIBED);
    await vi.advanceTimersByTimeAsync(1);
    await create(DESCRIBED);
    expect(orders).toEqual([DESCRIBED, PLAIN, PLAIN, DESCRIBED]);
    expect(logged).toMatchObject([{ event: 'mint_rejects_descriptions', mintUrl: MINT }]);
  });

  it('is not to blame if the request fails without it too', async () => {
    const { create, orders, logged } = createClient(trouble, BUSY, CREATED);
    expect(await create(DESCRIBED)).toBe(BUSY);
    await create(DESCRIBED);
    expect(orders).toEqual([DESCRIBED, PLAIN, DESCRIBED]);
    expect(logged).toEqual([]);
  });

  it('is not to blame if the mint accepted one a moment ago', async () => {
    const { create, orders, logged } = createClient(CREATED, trouble, CREATED, CREATED);
    for (let count = 0; count < 3; count += 1) {
      expect(await create(DESCRIBED)).toBe(CREATED);
    }
    expect(orders).toEqual([DESCRIBED, DESCRIBED, PLAIN, DESCRIBED]);
    expect(logged).toEqual([]);
  });
});

describe('other requests', () => {
  it('are sent on routes of their own', async () => {
    const { client, finished } = createClient();
    await client.readQuote(MINT, 'q');
    await client.checkQuotes(MINT, ['q']);
    await client.readInfo(MINT);
    expect(finished.map(({ route }) => route)).toEqual(['read', 'check', 'info']);
  });

  it('are not sent while their route rests', async () => {
    const { client, limiter, finished } = createClient();
    for (const route of ['read', 'check', 'info'] as const) {
      granted(await limiter.acquire(MINT, route)).settle({
        outcome: 'rate_limited',
        retryAfterMs: 30_000,
      });
    }
    finished.length = 0;
    const refused = { outcome: 'rate_limited', retryAfterMs: 30_000 };
    expect(await client.readQuote(MINT, 'q')).toEqual(refused);
    expect(await client.checkQuotes(MINT, ['q'])).toEqual(refused);
    expect(await client.readInfo(MINT)).toEqual(refused);
    expect([client.waitMs(MINT, 'read'), client.waitMs(MINT, 'check')]).toEqual([30_000, 30_000]);
    expect(finished).toEqual([]);
  });
});

/** A limited client of a mint that gives these answers to requests for quotes, one after the other. */
function createClient(...answers: (CreateQuoteAnswer | Error)[]) {
  const { limiter, finished } = createLimiter();
  const orders: object[] = [];
  const logged: object[] = [];
  let beforeAnswer: () => Promise<void> = async () => {};
  const client = new LimitedMintClient({
    client: {
      createQuote: async (_mintUrl, order) => {
        orders.push(order);
        await beforeAnswer();
        const answer = answers.shift() ?? new Error('one request too many');
        if (answer instanceof Error) {
          throw answer;
        }
        return answer;
      },
      readQuote: async () => ({ outcome: 'not_found' }),
      checkQuotes: async () => ({ outcome: 'found', observations: [] }),
      readInfo: async () => ({ outcome: 'invalid' }),
    },
    limiter,
    monotonicMs: () => performance.now(),
    log: { info: (fields: object) => logged.push(fields) } as never,
  });
  const create = async (
    order: Parameters<LimitedMintClient['createQuote']>[2],
    meanwhile: () => Promise<void> = async () => {},
  ) => {
    const patienceMs = limiter.payerPatienceMs;
    const permit = granted(await limiter.acquire(MINT, 'create', { patienceMs }));
    beforeAnswer = meanwhile;
    return await client.createQuote(MINT, permit, order);
  };
  return { client, create, orders, logged, limiter, finished };
}
