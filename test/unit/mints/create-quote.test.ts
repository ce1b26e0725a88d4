import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createQuoteForPayer } from '../../../src/mints/create-quote.ts';
import type { CreateQuoteResult, MintClient } from '../../../src/mints/mint-client.ts';

const MINT_URL = 'https://mint.example';
const SECOND_MS = 1_000;

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
});
afterEach(() => {
  vi.useRealTimers();
});

// test/acceptance/lnurl.test.ts has retries after failures of the mint.
describe('createQuoteForPayer', () => {
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

describe('createQuoteForPayer with a description', () => {
  it.each([
    ['status 500', STATUS_500],
    ['a rejection', REJECTED],
  ])('omits the description from the retry after %s', async (_case, failure) => {
    const { create, sentParams } = createQuoteCreator(failure, CREATED);
    expect(await create(DESCRIBED)).toBe(CREATED);
    expect(sentParams).toEqual([DESCRIBED, UNDESCRIBED]);
  });
});

function createQuoteCreator(...results: CreateQuoteResult[]) {
  const sentParams: object[] = [];
  let beforeResponse: () => Promise<void> = async () => {};
  const client: Pick<MintClient, 'createQuote'> = {
    createQuote: async (_mintUrl, params) => {
      sentParams.push(params);
      await beforeResponse();
      return results.shift() ?? expect.fail('unexpected request');
    },
  };
  const create = async (
    params: Parameters<MintClient['createQuote']>[1],
    whileMintResponds: () => Promise<void> = async () => {},
  ) => {
    beforeResponse = whileMintResponds;
    return await createQuoteForPayer(client, MINT_URL, params, 'a', () => performance.now());
  };
  return { create, sentParams };
}
