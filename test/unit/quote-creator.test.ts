import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { CreateQuoteAnswer } from '../../src/mints/mint-client.ts';
import { QuoteCreator } from '../../src/mints/quote-creator.ts';
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
const LONG_429: CreateQuoteAnswer = { outcome: 'rate_limited', retryAfterMs: 30_000 };

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
  it('sends one request and returns the answer', async () => {
    const { create, orders } = createClient(CREATED);
    expect(await create(DESCRIBED)).toBe(CREATED);
    expect(orders).toEqual([DESCRIBED]);
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

  it.each<[string, CreateQuoteAnswer[], object, object, number]>([
    ['does not retry a second time', [BARE_429, BARE_429], PLAIN, { outcome: 'rate_limited' }, 2],
    ['does not wait longer than a payer', [LONG_429], PLAIN, LONG_429, 1],
    ['retries once if the mint was busy', [BUSY, CREATED], PLAIN, CREATED, 2],
    ['returns the failure of a mint that stays busy', [BUSY, BUSY], PLAIN, BUSY, 2],
    ['does not retry after a refusal without a description', [REFUSED], PLAIN, REFUSED, 1],
    ['does not retry after another failure', [TIMED_OUT], DESCRIBED, TIMED_OUT, 1],
  ])('%s', async (_what, answers, order, expected, requests) => {
    const { create, orders } = createClient(...answers);
    const created = create({ ...PLAIN, ...order });
    await vi.advanceTimersByTimeAsync(MINUTE);
    expect(await created).toMatchObject(expected);
    expect(orders).toEqual(Array(requests).fill(order));
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
});

describe('a description', () => {
  it.each([
    ['500', BUSY],
    ['a refusal', REFUSED],
  ])('is left out of a second request after %s', async (_what, trouble) => {
    const { create, orders } = createClient(trouble, CREATED);
    expect(await create(DESCRIBED)).toBe(CREATED);
    expect(orders).toEqual([DESCRIBED, PLAIN]);
  });

  it('that the mint refused is left out of other requests for five minutes', async () => {
    const { create, orders, logged } = createClient(REFUSED, CREATED, CREATED, CREATED);
    await create(DESCRIBED);
    await vi.advanceTimersByTimeAsync(5 * MINUTE);
    await create(DESCRIBED);
    await vi.advanceTimersByTimeAsync(1);
    await create(DESCRIBED);
    expect(orders).toEqual([DESCRIBED, PLAIN, PLAIN, DESCRIBED]);
    expect(logged).toMatchObject([{ event: 'mint_rejects_descriptions', mintUrl: MINT }]);
  });

  it('is not taken for too long if the mint lately accepted one of that length', async () => {
    const { create, orders, logged } = createClient(CREATED, REFUSED, CREATED, CREATED);
    await create(DESCRIBED);
    await create(DESCRIBED);
    await create(DESCRIBED);
    expect(orders).toEqual([DESCRIBED, DESCRIBED, PLAIN, DESCRIBED]);
    expect(logged).toEqual([]);
  });

  it('that is longer than those that the mint accepted is left out after a refusal', async () => {
    const { create, orders } = createClient(CREATED, REFUSED, CREATED, CREATED, CREATED);
    const short = { ...PLAIN, description: 'coffee' };
    for (const order of [short, DESCRIBED, DESCRIBED, short]) {
      await create(order);
    }
    expect(orders).toEqual([short, DESCRIBED, PLAIN, PLAIN, short]);
  });

  it.each([
    ['a busy mint', BUSY, CREATED],
    ['a mint that fails without it too', REFUSED, BUSY],
  ])('is sent again to %s', async (_what, first, second) => {
    const { create, orders, logged } = createClient(first, second, CREATED);
    expect(await create(DESCRIBED)).toBe(second);
    await create(DESCRIBED);
    expect(orders).toEqual([DESCRIBED, PLAIN, DESCRIBED]);
    expect(logged).toEqual([]);
  });
});

/** Creates quotes at a mint that gives these answers, one after the other. */
function createClient(...answers: CreateQuoteAnswer[]) {
  const { limiter } = createLimiter();
  const orders: object[] = [];
  const logged: object[] = [];
  let beforeAnswer: () => Promise<void> = async () => {};
  const creator = new QuoteCreator({
    client: {
      createQuote: async (_mintUrl, order, permit) => {
        orders.push(order);
        await beforeAnswer();
        const answer = answers.shift();
        if (answer === undefined || permit === undefined) {
          throw new Error('one request too many');
        }
        permit.settle(answer);
        return answer;
      },
    },
    limiter,
    monotonicMs: () => performance.now(),
    log: { info: (fields: object) => logged.push(fields) } as never,
  });
  const create = async (
    order: Parameters<QuoteCreator['createQuote']>[2],
    meanwhile: () => Promise<void> = async () => {},
  ) => {
    const patienceMs = limiter.payerPatienceMs;
    const permit = granted(await limiter.acquire(MINT, 'create', { patienceMs }));
    beforeAnswer = meanwhile;
    return await creator.createQuote(MINT, permit, order);
  };
  return { create, orders, logged, limiter };
}
