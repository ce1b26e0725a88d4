import { describe, expect, it } from 'vitest';
import {
  FIRST_PAID_AT_MS,
  insertPaidQuotes,
  type PaidQuoteFixture,
} from '../helpers/recipients/quote-fixtures.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';

/** `GET /api/v2/wallet/summary`: the totals of a recipient's payments. */

const PATH = '/api/v2/wallet/summary';
const MAX_COUNTED_PAYMENTS = 2_000;

const environment = useTestEnvironment();

describe('GET /api/v2/wallet/summary', () => {
  it('adds up all payments, and those that were not minted', async () => {
    const wallet = environment.newWallet();
    await insertPaidQuotes(environment.database, wallet.pubkey, [
      { paidAtMs: 1_000, amountSat: 1, state: 'ISSUED' },
      { paidAtMs: 2_000, amountSat: 20, state: 'PAID' },
      { paidAtMs: 3_000, amountSat: 300, state: 'INFLIGHT' },
      { paidAtMs: 4_000, amountSat: 4_000, state: 'ISSUED' },
    ]);
    // Not paid.
    await environment.requestInvoice(wallet, 50_000);
    const { status, body } = await wallet.get(PATH);
    expect({ status, body }).toEqual({
      status: 200,
      body: {
        error: false,
        data: {
          payments: 4,
          amount: 4_321,
          waiting: { payments: 2, amount: 320 },
          complete: true,
        },
      },
    });
  });

  it('adds up only the newest 2,000 payments of a user with more', async () => {
    const wallet = environment.newWallet();
    await insertPaidQuotes(environment.database, wallet.pubkey, createPayments(3));
    expect((await wallet.get(PATH)).body.data).toEqual({
      payments: MAX_COUNTED_PAYMENTS,
      amount: 21 * MAX_COUNTED_PAYMENTS,
      waiting: { payments: MAX_COUNTED_PAYMENTS, amount: 21 * MAX_COUNTED_PAYMENTS },
      complete: false,
    });
  });
});

/** Returns some old payments of a million sats, and then as many payments of 21 sats as the totals include. */
function createPayments(oldCount: number): PaidQuoteFixture[] {
  return Array.from({ length: oldCount + MAX_COUNTED_PAYMENTS }, (_, index) => ({
    paidAtMs: FIRST_PAID_AT_MS + index * 1_000,
    amountSat: index < oldCount ? 1_000_000 : 21,
  }));
}
