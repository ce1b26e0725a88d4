import { beforeAll, describe, expect, it } from 'vitest';
import { FIRST_PAID_AT_MS, insertPayments } from '../helpers/quotes.ts';
import { receivePayment, useTestEnvironment } from '../helpers/test-environment.ts';
import type { ApiResponse, TestWallet } from '../helpers/test-wallet.ts';

/** `GET /api/v2/wallet/quotes` (spec.md section 4.2). */

const PATH = '/api/v2/wallet/quotes';
const FIRST_PAID_AT = FIRST_PAID_AT_MS / 1000;

const world = useTestEnvironment();
/** Has 120 payments, one per second. */
let richWallet: TestWallet;
/** Quote ids of {@link richWallet}, oldest first. */
let ids: string[];

beforeAll(async () => {
  richWallet = world.newWallet();
  ids = await insertPayments(world.database, richWallet.pubkey, 120);
});

describe('a listed quote', () => {
  it('has exactly the documented fields, with times in seconds and the amount in sats', async () => {
    const wallet = world.newWallet();
    const before = Math.floor(Date.now() / 1000);
    const pr = await receivePayment(world, wallet, 'amount=21000');
    const [created] = [...world.mint.quotes.values()].filter((quote) => quote.request === pr);

    const { status, headers, body } = await wallet.get(PATH);
    expect(status).toBe(200);
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(body).toEqual({
      error: false,
      data: {
        quotes: [
          {
            createdAt: expect.any(Number),
            paidAt: expect.any(Number),
            expiresAt: created?.expiresAt,
            mintUrl: world.mint.url,
            quoteId: created?.id,
            request: pr,
            amount: 21,
            state: 'PAID',
            locked: false,
          },
        ],
      },
      metadata: { total: 1, limit: 50 },
    });
    const [{ createdAt, paidAt, expiresAt }] = body.data.quotes;
    const now = Math.floor(Date.now() / 1000);
    expect([createdAt, paidAt, expiresAt].every(Number.isSafeInteger)).toBe(true);
    expect(createdAt).toBeGreaterThanOrEqual(before);
    expect(paidAt).toBeGreaterThanOrEqual(createdAt);
    expect(paidAt).toBeLessThanOrEqual(now);
  });

  it('is never unpaid', async () => {
    const wallet = world.newWallet();
    await world.requestInvoice(wallet, 21);
    const { body } = await wallet.get(PATH);
    expect(body).toEqual({
      error: false,
      data: { quotes: [] },
      metadata: { total: 0, limit: 50 },
    });
  });

  it('may be INFLIGHT, PAID or ISSUED', async () => {
    const wallet = world.newWallet();
    await insertPayments(world.database, wallet.pubkey, [
      { paidAtMs: 1_000, state: 'INFLIGHT' },
      { paidAtMs: 2_000, state: 'PAID' },
      { paidAtMs: 3_000, state: 'ISSUED' },
    ]);
    const states = (await wallet.listQuotes()).map((quote) => quote['state']);
    expect(states).toEqual(['ISSUED', 'PAID', 'INFLIGHT']);
  });

  it('has large amounts and times without rounding', async () => {
    const wallet = world.newWallet();
    const amountSat = Number.MAX_SAFE_INTEGER;
    await insertPayments(world.database, wallet.pubkey, [
      { paidAtMs: 4_102_444_800_999, amountSat },
    ]);
    expect(await wallet.listQuotes()).toMatchObject([{ amount: amountSat, paidAt: 4_102_444_800 }]);
  });
});

describe('a page', () => {
  it.each([
    [1, 1],
    [51, 50],
    [1000, 50],
  ])('requested with limit %i returns %i quotes and reports that limit', async (limit, applied) => {
    const { body } = await richWallet.get(`${PATH}?limit=${limit}`);
    expect(idsOf({ body })).toEqual(newestFirst(0, applied));
    expect(body.metadata).toEqual({ total: 120, limit: applied });
  });
});

describe('the since parameter', () => {
  it('selects payments after that second and counts only those', async () => {
    const since = FIRST_PAID_AT + 109;
    const { body } = await richWallet.get(`${PATH}?since=${since}`);
    expect(idsOf({ body })).toEqual(newestFirst(0, 10));
    expect(body.metadata).toEqual({ total: 10, limit: 50, since });
  });

  it('can be combined with offset and limit; the total stays the same', async () => {
    const since = FIRST_PAID_AT + 19;
    const { body } = await richWallet.get(`${PATH}?since=${since}&offset=95&limit=10`);
    expect(idsOf({ body })).toEqual(newestFirst(95, 100));
    expect(body.metadata).toEqual({ total: 100, limit: 10, since, offset: 95 });
    const beyond = await richWallet.get(`${PATH}?since=${since}&offset=100`);
    expect(idsOf(beyond)).toEqual([]);
    expect(beyond.body.metadata.total).toBe(100);
  });

  it('includes payments later within the same second', async () => {
    const wallet = world.newWallet();
    const [onTheSecond, later] = await insertPayments(world.database, wallet.pubkey, [
      { paidAtMs: 7_000_000 },
      { paidAtMs: 7_000_001 },
    ]);
    const { body } = await wallet.get(PATH);
    expect(body.data.quotes).toMatchObject([
      { quoteId: later, paidAt: 7_000 },
      { quoteId: onTheSecond, paidAt: 7_000 },
    ]);
    expect(idsOf(await wallet.get(`${PATH}?since=7000`))).toEqual([later]);
    expect(idsOf(await wallet.get(`${PATH}?since=6999`))).toEqual([later, onTheSecond]);
  });
});

describe('query parameters', () => {
  it.each([
    ['limit', '0'],
    ['limit', '1001'],
    ['limit', '1.5'],
    ['limit', '50&limit=50'],
    ['since', '-1'],
    ['since', '9'.repeat(30)],
    ['offset', '-1'],
    ['offset', '1e3'],
    ['offset', '9'.repeat(30)],
  ])('are rejected if invalid: %s=%s', async (field, value) => {
    const { status, body } = await richWallet.get(`${PATH}?${field}=${value}`);
    expect({ status, body }).toEqual({
      status: 400,
      body: { error: true, message: expect.stringMatching(new RegExp(`^${field}: must be `)) },
    });
  });

  it('are ignored if unknown', async () => {
    const { status, body } = await richWallet.get(`${PATH}?limit=1&order=asc&state=PAID`);
    expect(status).toBe(200);
    expect(body.metadata).toEqual({ total: 120, limit: 1 });
  });
});

function idsOf({ body }: Pick<ApiResponse, 'body'>): unknown[] {
  return body.data.quotes.map((quote: { quoteId: unknown }) => quote.quoteId);
}

/** Returns indexes into {@link ids}, newest first, from `from` until before `to`. */
function newestPositions(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, index) => 119 - from - index);
}

function newestFirst(from: number, to: number): (string | undefined)[] {
  return newestPositions(from, to).map((position) => ids[position]);
}
