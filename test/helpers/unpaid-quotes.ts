import { randomBytes, randomUUIDv7 } from 'node:crypto';
import { latePaymentUntilMs } from '../../src/domain/poll-schedule.ts';
import type { NewQuote } from '../../src/store/quote-store.ts';

/** When quotes that name no other time were created (milliseconds since 1970). */
export const CREATED_AT_MS = 1_750_000_000_000;

/** The mint of quotes that name no other: a port at which nobody answers. */
export const NOWHERE_MINT = 'http://127.0.0.1:1';

/** A quote as it is stored when its invoice is returned; a test passes the fields that matter to it. */
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
