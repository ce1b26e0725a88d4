import { describe, expect, it } from 'vitest';
import { FIRST_PAID_AT_MS, insertPaidQuotes } from '../helpers/recipients/quote-fixtures.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';

const PATH = '/api/v2/wallet/summary';

const environment = useTestEnvironment();

describe('GET /api/v2/wallet/summary', () => {
  it('adds up all payments, and those that were not minted, before they are listed', async () => {
    const wallet = environment.newWallet();
    await insertPaidQuotes(environment.database, wallet.pubkey, [
      { paidAtMs: 1_000, amountSat: 1, state: 'ISSUED' },
      { paidAtMs: 2_000, amountSat: 20, state: 'PAID' },
      { paidAtMs: 3_000, amountSat: 300, state: 'INFLIGHT' },
      { paidAtMs: 4_000, amountSat: 4_000, state: 'ISSUED' },
    ]);
    // The last payment waits for its second.
    await environment.database.db
      .updateTable('users')
      .set({ listed_until: 4_000 })
      .where('pubkey', '=', wallet.pubkey)
      .execute();
    await environment.database.db
      .updateTable('quotes')
      .set({ locked: 1 })
      .where('pubkey', '=', wallet.pubkey)
      .where('amount_sat', 'in', [1, 20])
      .execute();
    await environment.requestInvoice(wallet, 50_000);
    const { status, body } = await wallet.get(PATH);
    const waiting = { payments: 2, amount: 320, locked: 1 };
    const data = { payments: 4, amount: 4_321, waiting, complete: true };
    expect({ status, body }).toEqual({ status: 200, body: { error: false, data } });
  });

  it('adds up only the newest 2,000 payments of a user with more', async () => {
    const wallet = environment.newWallet();
    const payments = Array.from({ length: 2_003 }, (_, index) => ({
      paidAtMs: FIRST_PAID_AT_MS + index * 1_000,
      amountSat: index < 3 ? 1_000_000 : 21,
    }));
    await insertPaidQuotes(environment.database, wallet.pubkey, payments);
    const totals = { payments: 2_000, amount: 42_000 };
    expect((await wallet.get(PATH)).body.data).toEqual({
      ...totals,
      waiting: { ...totals, locked: 0 },
      complete: false,
    });
  });
});
