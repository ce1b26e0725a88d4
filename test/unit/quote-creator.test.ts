import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { CreateQuoteResult } from '../../src/mints/mint-client.ts';
import { QuoteCreator } from '../../src/mints/quote-creator.ts';
import { createTestRateLimiter, expectGranted } from '../helpers/test-mint-rate-limiter.ts';

const MINT = 'https://mint.example';
const SECOND = 1_000;
const MINUTE = 60 * SECOND;

const CREATED: CreateQuoteResult = {
  outcome: 'created',
  quote: { quoteId: 'q', request: 'lnbc1', expiry: null, amountSat: 21, pubkey: null },
};
const REJECTED: CreateQuoteResult = { outcome: 'rejected', status: 400, detail: 'no' };
const BUSY: CreateQuoteResult = { outcome: 'unavailable', reason: 'status 500' };
const TIMED_OUT: CreateQuoteResult = { outcome: 'unavailable', reason: 'timed out' };
const BARE_429: CreateQuoteResult = { outcome: 'rate_limited', retryAfterMs: null };
const LONG_429: CreateQuoteResult = { outcome: 'rate_limited', retryAfterMs: 30_000 };

const PLAIN = { amountSat: 21 };
const DESCRIBED = { amountSat: 21, descriptionHash: 'ab'.repeat(32) };

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  // `lru-cache` treats the time 0 as unset; the monotonic clock of a process is never 0.
  vi.advanceTimersByTime(SECOND);
});
afterEach(() => {
  vi.useRealTimers();
});

describe('QuoteCreator.createQuote', () => {
  it('sends one request and returns the response', async () => {
    const { create, sentParams } = createClient(CREATED);
    expect(await create(DESCRIBED)).toBe(CREATED);
    expect(sentParams).toEqual([DESCRIBED]);
  });

  it('retries once after a stray 429, when the cooldown ends', async () => {
    const { create, sentParams } = createClient(BARE_429, CREATED);
    const created = create(DESCRIBED);
    await vi.advanceTimersByTimeAsync(2 * SECOND - 1);
    expect(sentParams).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(await created).toBe(CREATED);
    expect(sentParams).toEqual([DESCRIBED, DESCRIBED]);
  });

  it.each<[string, CreateQuoteResult[], object, object, number]>([
    ['does not retry a second time', [BARE_429, BARE_429], PLAIN, { outcome: 'rate_limited' }, 2],
    ['does not wait longer than a payer', [LONG_429], PLAIN, LONG_429, 1],
    ['retries once if the mint was busy', [BUSY, CREATED], PLAIN, CREATED, 2],
    ['returns the failure of a mint that stays busy', [BUSY, BUSY], PLAIN, BUSY, 2],
    ['does not retry after a rejection without a description', [REJECTED], PLAIN, REJECTED, 1],
    ['does not retry after another failure', [TIMED_OUT], DESCRIBED, TIMED_OUT, 1],
  ])('%s', async (_what, results, params, expected, requests) => {
    const { create, sentParams } = createClient(...results);
    const created = create({ ...PLAIN, ...params });
    await vi.advanceTimersByTimeAsync(MINUTE);
    expect(await created).toMatchObject(expected);
    expect(sentParams).toEqual(Array(requests).fill(params));
  });

  it('returns the first failure if a retry is not possible soon', async () => {
    const { create, sentParams, limiter } = createClient(BUSY);
    const waiting = create(PLAIN, async () => {
      expectGranted(await limiter.acquire(MINT, 'create')).complete({
        outcome: 'rate_limited',
        retryAfterMs: MINUTE,
      });
    });
    expect(await waiting).toBe(BUSY);
    expect(sentParams).toHaveLength(1);
  });
});

describe('a description', () => {
  it.each([
    ['500', BUSY],
    ['a rejection', REJECTED],
  ])('is omitted from the retry after %s', async (_what, failure) => {
    const { create, sentParams } = createClient(failure, CREATED);
    expect(await create(DESCRIBED)).toBe(CREATED);
    expect(sentParams).toEqual([DESCRIBED, PLAIN]);
  });

  it('that the mint rejected is omitted from other requests for five minutes', async () => {
    const { create, sentParams, logged } = createClient(REJECTED, CREATED, CREATED, CREATED);
    await create(DESCRIBED);
    await vi.advanceTimersByTimeAsync(5 * MINUTE);
    await create(DESCRIBED);
    await vi.advanceTimersByTimeAsync(1);
    await create(DESCRIBED);
    expect(sentParams).toEqual([DESCRIBED, PLAIN, PLAIN, DESCRIBED]);
    expect(logged).toMatchObject([{ event: 'mint_rejects_descriptions', mintUrl: MINT }]);
  });

  it('is not considered too long if the mint recently accepted one of that length', async () => {
    const { create, sentParams, logged } = createClient(CREATED, REJECTED, CREATED, CREATED);
    await create(DESCRIBED);
    await create(DESCRIBED);
    await create(DESCRIBED);
    expect(sentParams).toEqual([DESCRIBED, DESCRIBED, PLAIN, DESCRIBED]);
    expect(logged).toEqual([]);
  });

  it('that is longer than all accepted ones is omitted after a rejection', async () => {
    const { create, sentParams } = createClient(CREATED, REJECTED, CREATED, CREATED, CREATED);
    const short = { ...PLAIN, description: 'coffee' };
    for (const params of [short, DESCRIBED, DESCRIBED, short]) {
      await create(params);
    }
    expect(sentParams).toEqual([short, DESCRIBED, PLAIN, PLAIN, short]);
  });

  it.each([
    ['a busy mint', BUSY, CREATED],
    ['a mint that fails without it too', REJECTED, BUSY],
  ])('is sent again to %s', async (_what, first, second) => {
    const { create, sentParams, logged } = createClient(first, second, CREATED);
    expect(await create(DESCRIBED)).toBe(second);
    await create(DESCRIBED);
    expect(sentParams).toEqual([DESCRIBED, PLAIN, DESCRIBED]);
    expect(logged).toEqual([]);
  });
});

/** Creates quotes at a mint that returns these results in params. */
function createClient(...results: CreateQuoteResult[]) {
  const { limiter } = createTestRateLimiter();
  const sentParams: object[] = [];
  const logged: object[] = [];
  let beforeAnswer: () => Promise<void> = async () => {};
  const creator = new QuoteCreator({
    client: {
      createQuote: async (_mintUrl, params, permit) => {
        sentParams.push(params);
        await beforeAnswer();
        const answer = results.shift();
        if (answer === undefined || permit === undefined) {
          throw new Error('one request too many');
        }
        permit.complete(answer);
        return answer;
      },
    },
    limiter,
    monotonicMs: () => performance.now(),
    log: { info: (fields: object) => logged.push(fields) } as never,
  });
  const create = async (
    params: Parameters<QuoteCreator['createQuote']>[2],
    meanwhile: () => Promise<void> = async () => {},
  ) => {
    const patienceMs = limiter.payerMaxWaitMs;
    const permit = expectGranted(await limiter.acquire(MINT, 'create', { maxWaitMs: patienceMs }));
    beforeAnswer = meanwhile;
    return await creator.createQuote(MINT, permit, params);
  };
  return { create, sentParams, logged, limiter };
}
