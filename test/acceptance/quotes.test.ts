import { beforeAll, describe, expect, it } from 'vitest';
import { FIRST_PAID_AT_MS, keepPayments } from '../helpers/quotes.ts';
import type { ApiAnswer, TestWallet } from '../helpers/wallet.ts';
import { receive, useWorld } from '../helpers/world.ts';

/** `GET /api/v2/wallet/quotes` (spec.md section 4.2). */

const PATH = '/api/v2/wallet/quotes';
const FIRST_PAID_AT = FIRST_PAID_AT_MS / 1000;

const world = useWorld();
/** Has 120 payments, a second apart; `ids` names them, the oldest first. */
let rich: TestWallet;
let ids: string[];

beforeAll(async () => {
  rich = world.newWallet();
  ids = await keepPayments(world.database, rich.pubkey, 120);
});

describe('a listed quote', () => {
  it('has these fields and no others, times in seconds and the amount in sats', async () => {
    const wallet = world.newWallet();
    const before = Math.floor(Date.now() / 1000);
    const pr = await receive(world, wallet, 'amount=21000');
    const [kept] = [...world.mint.quotes.values()].filter((quote) => quote.request === pr);

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
            expiresAt: kept?.expiresAt,
            mintUrl: world.mint.url,
            quoteId: kept?.id,
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

  it('is one that was paid, never one that is not', async () => {
    const wallet = world.newWallet();
    await world.askInvoice(wallet, 21);
    const { body } = await wallet.get(PATH);
    expect(body).toEqual({
      error: false,
      data: { quotes: [] },
      metadata: { total: 0, limit: 50 },
    });
  });

  it('is there in each of the three states', async () => {
    const wallet = world.newWallet();
    await keepPayments(world.database, wallet.pubkey, [
      { paidAtMs: 1_000, state: 'INFLIGHT' },
      { paidAtMs: 2_000, state: 'PAID' },
      { paidAtMs: 3_000, state: 'ISSUED' },
    ]);
    const states = (await wallet.listQuotes()).map((quote) => quote['state']);
    expect(states).toEqual(['ISSUED', 'PAID', 'INFLIGHT']);
  });

  it('holds the largest amounts and times without rounding', async () => {
    const wallet = world.newWallet();
    const amountSat = Number.MAX_SAFE_INTEGER;
    await keepPayments(world.database, wallet.pubkey, [{ paidAtMs: 4_102_444_800_999, amountSat }]);
    expect(await wallet.listQuotes()).toMatchObject([{ amount: amountSat, paidAt: 4_102_444_800 }]);
  });
});

describe('pages', () => {
  it.each([
    [1, 1],
    [51, 50],
    [1000, 50],
  ])('of %i hold %i, and say so', async (limit, applied) => {
    const { body } = await rich.get(`${PATH}?limit=${limit}`);
    expect(idsOf({ body })).toEqual(newestFirst(0, applied));
    expect(body.metadata).toEqual({ total: 120, limit: applied });
  });
});

describe('payments since a time', () => {
  it('are those later than that second, and counted as such', async () => {
    const since = FIRST_PAID_AT + 109;
    const { body } = await rich.get(`${PATH}?since=${since}`);
    expect(idsOf({ body })).toEqual(newestFirst(0, 10));
    expect(body.metadata).toEqual({ total: 10, limit: 50, since });
  });

  it('are paged like all others, under the same total', async () => {
    const since = FIRST_PAID_AT + 19;
    const { body } = await rich.get(`${PATH}?since=${since}&offset=95&limit=10`);
    expect(idsOf({ body })).toEqual(newestFirst(95, 100));
    expect(body.metadata).toEqual({ total: 100, limit: 10, since, offset: 95 });
    const beyond = await rich.get(`${PATH}?since=${since}&offset=100`);
    expect(idsOf(beyond)).toEqual([]);
    expect(beyond.body.metadata.total).toBe(100);
  });

  it('include those later in the very same second: nothing of it is lost', async () => {
    const wallet = world.newWallet();
    const [onTheSecond, later] = await keepPayments(world.database, wallet.pubkey, [
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

describe('what was asked is repeated', () => {
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
  ])('and refused where it cannot be: %s=%s', async (field, value) => {
    const { status, body } = await rich.get(`${PATH}?${field}=${value}`);
    expect({ status, body }).toEqual({
      status: 400,
      body: { error: true, message: expect.stringMatching(new RegExp(`^${field}: must be `)) },
    });
  });

  it('while unknown parameters are passed over', async () => {
    const { status, body } = await rich.get(`${PATH}?limit=1&order=asc&state=PAID`);
    expect(status).toBe(200);
    expect(body.metadata).toEqual({ total: 120, limit: 1 });
  });
});

function idsOf({ body }: Pick<ApiAnswer, 'body'>): unknown[] {
  return body.data.quotes.map((quote: { quoteId: unknown }) => quote.quoteId);
}

/** Positions in `ids` of the newest payments, from one to before another. */
function newestPositions(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, index) => 119 - from - index);
}

function newestFirst(from: number, to: number): (string | undefined)[] {
  return newestPositions(from, to).map((position) => ids[position]);
}
