import { randomBytes, randomUUIDv7 } from 'node:crypto';
import type { Database } from '../../src/database/database.ts';
import { openLog } from '../../src/log.ts';
import { MintAnomalies } from '../../src/mints/mint-anomalies.ts';
import { latePaymentUntilMs } from '../../src/quotes/poll-schedule.ts';
import type { PaidState } from '../../src/quotes/quote.ts';
import type { NewQuote } from '../../src/quotes/quote-store.ts';
import { RecordObservations } from '../../src/quotes/record-observations.ts';
import type { Store } from '../../src/store.ts';

/** When an {@link unpaidQuote} was created by default (milliseconds since 1970). */
export const CREATED_AT_MS = 1_750_000_000_000;

/** The mint of an {@link unpaidQuote} by default: a port at which nothing listens. */
export const NOWHERE_MINT = 'http://127.0.0.1:1';

export function newPubkey(): string {
  return randomBytes(32).toString('hex');
}

/** Returns a quote as it is stored when its invoice is returned. */
export function unpaidQuote(pubkey: string, given: Partial<NewQuote> = {}): NewQuote {
  const quoteId = given.quoteId ?? randomUUIDv7();
  const createdAtMs = given.createdAtMs ?? CREATED_AT_MS;
  const expiresAtMs = given.expiresAtMs ?? createdAtMs + 3_600_000;
  return {
    mintUrl: NOWHERE_MINT,
    quoteId,
    pubkey,
    request: `lnbc1${quoteId}`,
    amountSat: 21,
    locked: false,
    createdAtMs,
    expiresAtMs,
    verifyToken: randomBytes(32).toString('hex'),
    paymentHash: randomBytes(32).toString('hex'),
    watchUntilMs: latePaymentUntilMs({ createdAtMs, expiresAtMs }),
    addressGroup: null,
    comment: null,
    zapRequest: null,
    ...given,
  };
}

export interface KeptPayment {
  /** Milliseconds since 1970. */
  paidAtMs: number;
  amountSat?: number;
  state?: PaidState;
}

/** The time of the first payment if {@link keepPayments} is given a number. */
export const FIRST_PAID_AT_MS = 1_700_000_000_000;

/**
 * Writes payments of a recipient who had none, as if each had been recorded at its time. Their mint is no
 * longer polled.
 *
 * @param payments in the order of their times, or how many, a second apart
 * @returns their quote ids, in the same order
 */
export async function keepPayments(
  { db }: Database,
  pubkey: string,
  payments: readonly KeptPayment[] | number,
): Promise<string[]> {
  const list: readonly KeptPayment[] =
    typeof payments === 'number'
      ? Array.from({ length: payments }, (_, i) => ({ paidAtMs: FIRST_PAID_AT_MS + i * 1000 }))
      : payments;
  const rows = list.map(({ paidAtMs, amountSat = 21, state = 'PAID' }, index) => {
    const quoteId = randomUUIDv7();
    return {
      mint_url: 'https://mint.example',
      quote_id: quoteId,
      pubkey,
      request: `lnbc1${quoteId}`,
      amount_sat: amountSat,
      state,
      locked: 0 as const,
      created_at: paidAtMs - 60_000,
      expires_at: paidAtMs + 3_600_000,
      paid_at: paidAtMs,
      paid_seq: index + 1,
      watch_until: null,
    };
  });
  const counter = { paid_count: rows.length, last_paid_at: rows.at(-1)?.paid_at ?? null };
  await db.insertInto('quotes').values(rows).execute();
  await db
    .insertInto('users')
    .values({ pubkey, ...counter })
    .onConflict((conflict) => conflict.column('pubkey').doUpdateSet(counter))
    .execute();
  return rows.map((row) => row.quote_id);
}

/** Records observations as a process without a zap key does. */
export function recorderOn(
  store: Store,
  {
    clock = Date.now,
    log = openLog('silent'),
    anomalies = new MintAnomalies(log) as Pick<MintAnomalies, 'report'>,
  } = {},
): RecordObservations {
  return new RecordObservations({ store, anomalies, zaps: null, clock, log });
}
