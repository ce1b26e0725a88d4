import { beforeAll, describe, expect, it } from 'vitest';
import { FIRST_PAID_AT_MS, insertPaidQuotes } from '../helpers/recipients/quote-fixtures.ts';
import type { ApiResponse, RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { receivePayment, useTestEnvironment } from '../helpers/service/test-environment.ts';

const LIST_PATH = '/api/v2/wallet/quotes';
const FIRST_PAID_AT_SECONDS = FIRST_PAID_AT_MS / 1000;

const PAYMENT_COUNT = 120;
const MAX_PAGE_SIZE = 50;

const environment = useTestEnvironment();
/** Has {@link PAYMENT_COUNT} payments, one per second. */
let richWallet: RecipientClient;
let richWalletIds: string[];

beforeAll(async () => {
  richWallet = environment.newWallet();
  richWalletIds = await insertPaidQuotes(environment.database, richWallet.pubkey, PAYMENT_COUNT);
});

describe('a listed quote', () => {
  it('has exactly the documented fields, with times in seconds and the amount in sats', async () => {
    const wallet = environment.newWallet();
    const startSeconds = Math.floor(Date.now() / 1000);
    const pr = await receivePayment(environment, wallet, 'amount=21000');
    const [mintQuote] = [...environment.mint.quotes.values()].filter(
      (quote) => quote.request === pr,
    );

    const { status, headers, body } = await wallet.get(LIST_PATH);
    expect(status).toBe(200);
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(body).toEqual({
      error: false,
      data: {
        quotes: [
          {
            createdAt: expect.any(Number),
            paidAt: expect.any(Number),
            expiresAt: mintQuote?.expiresAt,
            mintUrl: environment.mint.url,
            quoteId: mintQuote?.id,
            request: pr,
            amount: 21,
            state: 'PAID',
            locked: false,
          },
        ],
      },
      metadata: { total: 1, limit: MAX_PAGE_SIZE },
    });
    const [{ createdAt, paidAt, expiresAt }] = body.data.quotes;
    const endSeconds = Math.floor(Date.now() / 1000);
    expect([createdAt, paidAt, expiresAt].every(Number.isSafeInteger)).toBe(true);
    expect(createdAt).toBeGreaterThanOrEqual(startSeconds);
    expect(paidAt).toBeGreaterThanOrEqual(createdAt);
    expect(paidAt).toBeLessThanOrEqual(endSeconds);
  });

  it('has the exact amount and the second of its payment, even if these numbers are large', async () => {
    const wallet = environment.newWallet();
    const amountSat = Number.MAX_SAFE_INTEGER;
    await insertPaidQuotes(environment.database, wallet.pubkey, [
      { paidAtMs: 4_102_444_800_999, amountSat },
    ]);
    expect(await wallet.listPaidQuotes()).toMatchObject([
      { amount: amountSat, paidAt: 4_102_444_800 },
    ]);
  });
});

describe('a page', () => {
  it.each([
    [1, 1],
    [MAX_PAGE_SIZE + 1, MAX_PAGE_SIZE],
    [1000, MAX_PAGE_SIZE],
  ])(
    'requested with limit %i has %i quotes and reports this size as its limit',
    async (limit, size) => {
      const { body } = await richWallet.get(`${LIST_PATH}?limit=${limit}`);
      expect(idsOf({ body })).toEqual(newestIds(0, size));
      expect(body.metadata).toEqual({ total: PAYMENT_COUNT, limit: size });
    },
  );
});

describe('the since parameter', () => {
  it('can be combined with offset and limit, which do not change the total', async () => {
    const since = secondBeforeNewest(100);
    const { body } = await richWallet.get(`${LIST_PATH}?since=${since}&offset=95&limit=10`);
    expect(idsOf({ body })).toEqual(newestIds(95, 100));
    expect(body.metadata).toEqual({ total: 100, limit: 10, since, offset: 95 });
    const pageAfterLast = await richWallet.get(`${LIST_PATH}?since=${since}&offset=100`);
    expect(idsOf(pageAfterLast)).toEqual([]);
    expect(pageAfterLast.body.metadata.total).toBe(100);
  });
});

describe('query parameters', () => {
  it.each([
    ['limit', '0'],
    ['limit', '1001'],
    ['limit', '50&limit=50'],
    ['since', '-1'],
    ['offset', '-1'],
    ['offset', '9'.repeat(30)],
  ])('are rejected if invalid: %s=%s', async (field, value) => {
    const { status, body } = await richWallet.get(`${LIST_PATH}?${field}=${value}`);
    expect({ status, body }).toEqual({
      status: 400,
      body: {
        error: true,
        code: 'invalid',
        message: expect.stringMatching(new RegExp(`^${field}: must be `)),
      },
    });
  });

  it('are ignored if unknown', async () => {
    const { status, body } = await richWallet.get(`${LIST_PATH}?limit=1&order=asc&state=PAID`);
    expect(status).toBe(200);
    expect(body.metadata).toEqual({ total: PAYMENT_COUNT, limit: 1 });
  });
});

function idsOf({ body }: Pick<ApiResponse, 'body'>): unknown[] {
  return body.data.quotes.map((quote: { quoteId: unknown }) => quote.quoteId);
}

function newestIds(start: number, end: number): string[] {
  return richWalletIds.toReversed().slice(start, end);
}

function secondBeforeNewest(count: number): number {
  return FIRST_PAID_AT_SECONDS + PAYMENT_COUNT - 1 - count;
}
