import { randomUUIDv7 } from 'node:crypto';
import type { PaidState } from '../../src/domain/quote.ts';
import type { Database } from '../../src/store/database.ts';

/** A payment that has arrived already. */
export interface KeptPayment {
  /** Milliseconds since 1970. */
  paidAtMs: number;
  amountSat?: number;
  state?: PaidState;
}

/** When the payments of {@link keepPayments} that are given by number alone begin. */
export const FIRST_PAID_AT_MS = 1_700_000_000_000;

/**
 * Writes payments of a recipient who had none, as if each had been recorded at its time; no mint is
 * asked about them any more.
 *
 * @param payments in the order of their times, or how many, a second apart
 * @returns their quote ids, in the same order
 */
export async function keepPayments(
  { db }: Database,
  pubkey: string,
  payments: readonly KeptPayment[] | number,
): Promise<string[]> {
  const list = typeof payments === 'number' ? aSecondApart(payments) : payments;
  const rows = list.map(({ paidAtMs, amountSat = 21, state = 'PAID' }, index) => {
    const quoteId = randomUUIDv7();
    return {
      mint_url: 'https://mint.example',
      quote_id: quoteId,
      pubkey,
      request: `lnbc1${quoteId}`,
      amount_sat: amountSat,
      state,
      locked: false,
      created_at: new Date(paidAtMs - 60_000),
      expires_at: new Date(paidAtMs + 3_600_000),
      paid_at: new Date(paidAtMs),
      paid_seq: index + 1,
      watch_until: null,
    };
  });
  const counter = {
    paid_count: rows.length,
    last_paid_at: rows.at(-1)?.paid_at ?? null,
  };
  await db.insertInto('quotes').values(rows).execute();
  await db
    .insertInto('users')
    .values({ pubkey, ...counter })
    .onConflict((conflict) => conflict.column('pubkey').doUpdateSet(counter))
    .execute();
  return rows.map((row) => row.quote_id);
}

function aSecondApart(count: number): KeptPayment[] {
  return Array.from({ length: count }, (_, index) => ({
    paidAtMs: FIRST_PAID_AT_MS + index * 1000,
  }));
}
