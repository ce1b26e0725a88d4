import { randomBytes, randomUUIDv7 } from 'node:crypto';
import type { Database } from '../../src/database/database.ts';
import { createLogger } from '../../src/log.ts';
import { MintAnomalyCounter } from '../../src/mints/mint-anomalies.ts';
import { ObservationRecorder } from '../../src/quotes/observation-recorder.ts';
import { computeUnpaidWatchUntilMs, type PaidQuoteState } from '../../src/quotes/quote-state.ts';
import type { NewQuote } from '../../src/quotes/quote-store.ts';
import type { Store } from '../../src/store.ts';

/** Default creation time of {@link buildUnpaidQuote} (milliseconds since 1970). */
export const DEFAULT_CREATED_AT_MS = 1_750_000_000_000;

/** Default mint of {@link buildUnpaidQuote}: nothing listens on this port. */
export const UNREACHABLE_MINT_URL = 'http://127.0.0.1:1';

export function randomPubkey(): string {
  return randomBytes(32).toString('hex');
}

/** Returns a quote as it is stored when its invoice is returned. */
export function buildUnpaidQuote(pubkey: string, overrides: Partial<NewQuote> = {}): NewQuote {
  const quoteId = overrides.quoteId ?? randomUUIDv7();
  const createdAtMs = overrides.createdAtMs ?? DEFAULT_CREATED_AT_MS;
  const expiresAtMs = overrides.expiresAtMs ?? createdAtMs + 3_600_000;
  return {
    mintUrl: UNREACHABLE_MINT_URL,
    quoteId,
    pubkey,
    request: `lnbc1${quoteId}`,
    amountSat: 21,
    isLocked: false,
    createdAtMs,
    expiresAtMs,
    verifyToken: randomBytes(32).toString('hex'),
    paymentHash: randomBytes(32).toString('hex'),
    watchUntilMs: computeUnpaidWatchUntilMs({ createdAtMs, expiresAtMs }),
    addressGroupHash: null,
    comment: null,
    zapRequest: null,
    ...overrides,
  };
}

export interface StoredPayment {
  /** Milliseconds since 1970. */
  paidAtMs: number;
  amountSat?: number;
  state?: PaidQuoteState;
}

/** The time of the first payment if {@link insertPayments} is given a number. */
export const FIRST_PAID_AT_MS = 1_700_000_000_000;

/**
 * Inserts the first payments of a recipient, as if each had been recorded at its time. They are no longer
 * polled.
 *
 * @param payments in order of time, or a number of payments one second apart
 * @returns their quote ids, in the same order
 */
export async function insertPayments(
  { db }: Database,
  pubkey: string,
  payments: readonly StoredPayment[] | number,
): Promise<string[]> {
  const list: readonly StoredPayment[] =
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
export function createObservationRecorder(
  store: Store,
  {
    clock = Date.now,
    log = createLogger('silent'),
    anomalies = new MintAnomalyCounter(log) as Pick<MintAnomalyCounter, 'report'>,
  } = {},
): ObservationRecorder {
  return new ObservationRecorder({ store, anomalies, zaps: null, clock, log });
}
