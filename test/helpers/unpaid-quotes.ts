import { randomBytes, randomUUIDv7 } from 'node:crypto';
import { CHECK_CLASS, type CheckClass, type NextCheck } from '../../src/domain/poll-schedule.ts';
import type { NewQuote } from '../../src/store/quote-store.ts';

/** When quotes that name no other time were created (milliseconds since 1970). */
export const CREATED_AT_MS = 1_750_000_000_000;

/** The mint of quotes that name no other: a port at which nobody answers. */
export const NOWHERE_MINT = 'http://127.0.0.1:1';

/** A quote as it is kept when its invoice leaves; a test gives what matters to it. */
export function unpaidQuote(pubkey: string, given: Partial<NewQuote> = {}): NewQuote {
  const quoteId = given.quoteId ?? randomUUIDv7();
  const createdAtMs = given.createdAtMs ?? CREATED_AT_MS;
  return {
    mintUrl: NOWHERE_MINT,
    quoteId,
    pubkey,
    request: `lnbc1${quoteId}`,
    amountSat: 21,
    locked: false,
    createdAtMs,
    expiresAtMs: createdAtMs + 3_600_000,
    verifyToken: randomBytes(32).toString('hex'),
    paymentHash: randomBytes(32).toString('hex'),
    nextCheck: dueAt(createdAtMs),
    comment: null,
    zapRequest: null,
    ...given,
  };
}

/** A check that is due at a time (milliseconds since 1970). */
export function dueAt(atMs: number, checkClass: CheckClass = CHECK_CLASS.soon): NextCheck {
  return { atMs, checkClass };
}
