import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { CreateQuoteResult } from '../../../src/mints/mint-client.ts';
import { QuoteCreator } from '../../../src/mints/quote-creator.ts';

const MINT_URL = 'https://mint.example';
const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const PAYER_MAX_WAIT_MS = 8 * SECOND_MS;

const CREATED: CreateQuoteResult = {
  outcome: 'created',
  quote: {
    quoteId: 'q',
    request: 'lnbc1',
    expiry: null,
    amountSat: 21,
    pubkey: null,
    state: 'UNPAID',
  },
};
const REJECTED: CreateQuoteResult = { outcome: 'rejected', status: 400, detail: 'no' };
const STATUS_500: CreateQuoteResult = {
  outcome: 'unavailable',
  reason: 'unexpected status',
  status: 500,
};
const TIMED_OUT: CreateQuoteResult = { outcome: 'unavailable', reason: 'timed out' };

const UNDESCRIBED = { amountSat: 21 };
const DESCRIBED = { amountSat: 21, descriptionHash: 'ab'.repeat(32) };

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  // `lru-cache` treats the time 0 as unset, and the monotonic clock of a real process is never 0.
  vi.advanceTimersByTime(SECOND_MS);
});
afterEach(() => {
  vi.useRealTimers();
});

// test/acceptance/lnurl.test.ts has retries after failures of the mint.
describe('QuoteCreator.createQuote', () => {
  it('does not retry a rejected quote that has no description', async () => {
    const { create, sentParams } = createQuoteCreator(REJECTED);
    expect(await create(UNDESCRIBED)).toBe(REJECTED);
    expect(sentParams).toHaveLength(1);
  });

  it('does not retry if the payer has waited too long', async () => {
    const { create, sentParams } = createQuoteCreator(TIMED_OUT);
    const result = create(UNDESCRIBED, async () => {
      await vi.advanceTimersByTimeAsync(12 * SECOND_MS);
    });
    expect(await result).toBe(TIMED_OUT);
    expect(sentParams).toHaveLength(1);
  });
});

describe('QuoteCreator.createQuote with a description', () => {
  it.each([
    ['status 500', STATUS_500],
    ['a rejection', REJECTED],
  ])('omits the description from the retry after %s', async (_case, failure) => {
    const { create, sentParams } = createQuoteCreator(failure, CREATED);
    expect(await create(DESCRIBED)).toBe(CREATED);
    expect(sentParams).toEqual([DESCRIBED, UNDESCRIBED]);
  });

  it('omits descriptions of a rejected length for five minutes', async () => {
    const { create, sentParams, logged } = createQuoteCreator(REJECTED, CREATED, CREATED, CREATED);
    await create(DESCRIBED);
    await vi.advanceTimersByTimeAsync(5 * MINUTE_MS);
    await create(DESCRIBED);
    await vi.advanceTimersByTimeAsync(1);
    await create(DESCRIBED);
    expect(sentParams).toEqual([DESCRIBED, UNDESCRIBED, UNDESCRIBED, DESCRIBED]);
    expect(logged).toMatchObject([{ event: 'mint_rejects_descriptions', mintUrl: MINT_URL }]);
  });

  it('keeps sending descriptions of a length that the mint recently accepted', async () => {
    const { create, sentParams, logged } = createQuoteCreator(CREATED, REJECTED, CREATED, CREATED);
    await create(DESCRIBED);
    await create(DESCRIBED);
    await create(DESCRIBED);
    expect(sentParams).toEqual([DESCRIBED, DESCRIBED, UNDESCRIBED, DESCRIBED]);
    expect(logged).toEqual([]);
  });
});

function createQuoteCreator(...results: CreateQuoteResult[]) {
  const sentParams: object[] = [];
  const logged: object[] = [];
  let beforeResponse: () => Promise<void> = async () => {};
  const creator = new QuoteCreator({
    client: {
      createQuote: async (_mintUrl, params) => {
        sentParams.push(params);
        await beforeResponse();
        return results.shift() ?? expect.fail('unexpected request');
      },
    },
    payerMaxWaitMs: PAYER_MAX_WAIT_MS,
    monotonicMs: () => performance.now(),
    log: { info: (fields: object) => logged.push(fields) } as never,
  });
  const create = async (
    params: Parameters<QuoteCreator['createQuote']>[1],
    whileMintResponds: () => Promise<void> = async () => {},
  ) => {
    beforeResponse = whileMintResponds;
    return await creator.createQuote(MINT_URL, params, 'a');
  };
  return { create, sentParams, logged };
}
