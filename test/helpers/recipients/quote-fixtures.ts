import { randomBytes, randomUUIDv7 } from 'node:crypto';
import type { Database } from '../../../src/database/database.ts';
import type { Db } from '../../../src/database/transaction.ts';
import { createLogger } from '../../../src/log.ts';
import type { SourcedObservation } from '../../../src/quotes/decide-observation.ts';
import {
  type RecordingContext,
  recordObservations,
} from '../../../src/quotes/observation-recorder.ts';
import { computeUnpaidWatchUntilMs, type PaidQuoteState } from '../../../src/quotes/quote-state.ts';
import type { NewQuote } from '../../../src/quotes/quote-store.ts';

const HOUR_MS = 3_600_000;

export const DEFAULT_QUOTE_CREATED_AT_MS = 1_750_000_000_000;

export const UNREACHABLE_MINT_URL = 'http://127.0.0.1:1';

export function randomPubkey(): string {
  return randomBytes(32).toString('hex');
}

export function buildUnpaidQuote(pubkey: string, overrides: Partial<NewQuote> = {}): NewQuote {
  const quoteId = overrides.quoteId ?? randomUUIDv7();
  const createdAtMs = overrides.createdAtMs ?? DEFAULT_QUOTE_CREATED_AT_MS;
  const expiresAtMs = overrides.expiresAtMs ?? createdAtMs + HOUR_MS;
  return {
    mintUrl: UNREACHABLE_MINT_URL,
    quoteId,
    pubkey,
    request: `lnbc1${quoteId}`,
    amountSat: 21,
    locked: 0,
    createdAtMs,
    expiresAtMs,
    verifyToken: randomBytes(32).toString('hex'),
    paymentHash: randomBytes(32).toString('hex'),
    watchUntilMs: computeUnpaidWatchUntilMs({ createdAtMs, expiresAtMs }),
    addressHashes: null,
    tag: null,
    comment: null,
    zapRequest: null,
    ...overrides,
  };
}

export interface PaidQuoteFixture {
  paidAtMs: number;
  amountSat?: number;
  state?: PaidQuoteState;
}

/** When the first quote was paid if {@link insertPaidQuotes} is called with a number of quotes. */
export const FIRST_PAID_AT_MS = 1_700_000_000_000;

/**
 * Inserts paid quotes of a recipient who has none yet, oldest payment first, as if a wallet had seen all of them. A
 * number of quotes are paid one second apart. The watcher does not poll them.
 */
export async function insertPaidQuotes(
  { db }: Database,
  pubkey: string,
  quotes: readonly PaidQuoteFixture[] | number,
): Promise<string[]> {
  const fixtures: readonly PaidQuoteFixture[] =
    typeof quotes === 'number'
      ? Array.from({ length: quotes }, (_, i) => ({ paidAtMs: FIRST_PAID_AT_MS + i * 1000 }))
      : quotes;
  const rows = fixtures.map(({ paidAtMs, amountSat = 21, state = 'PAID' }, index) => {
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
      expires_at: paidAtMs + HOUR_MS,
      paid_at: paidAtMs,
      paid_seq: index + 1,
      watch_until: null,
    };
  });
  const lastPaidAtMs = rows.at(-1)?.paid_at ?? null;
  const userColumns = {
    paid_count: rows.length,
    last_paid_at: lastPaidAtMs,
    listed_until: (Math.floor((lastPaidAtMs ?? 0) / 1000) + 1) * 1000,
  };
  await db.insertInto('quotes').values(rows).execute();
  await db
    .insertInto('users')
    .values({ pubkey, ...userColumns })
    .onConflict((conflict) => conflict.column('pubkey').doUpdateSet(userColumns))
    .execute();
  return rows.map((row) => row.quote_id);
}

export function createObservationRecorder(
  db: Db,
  {
    clock = Date.now,
    log = createLogger('silent'),
    zaps = null as RecordingContext['zaps'],
    recordNotifications = null as RecordingContext['recordNotifications'],
  } = {},
) {
  const context = { db, zaps, recordNotifications, clock, log };
  return {
    record: (mintUrl: string, observations: readonly SourcedObservation[]) =>
      recordObservations(context, mintUrl, observations),
  };
}
