import type { QuoteState } from '../database/schema.ts';
import { z } from 'zod';

/** The state that a mint reports. `PENDING`, while the mint signs, is `INFLIGHT` here: the payment has arrived. */
export type ObservedState = Exclude<QuoteState, 'EXPIRED'>;

/**
 * What a mint said of one quote, in a read, a batch check or a socket notification.
 *
 * Only the state may change after creation: later answers of some mints drop expiry and pubkey.
 * `amountSat` and `request` are there to be compared, never to be stored.
 */
export interface QuoteObservation {
  quoteId: string;
  state: ObservedState;
  amountSat?: number;
  request?: string;
}


/** The longest quote id that a mint may return: opaque text, in practice 36 to 43 characters. */
export const MAX_QUOTE_ID_LENGTH = 256;

/** A quote that its mint has just created (NUT-04, NUT-23). */
export interface CreatedQuote {
  quoteId: string;
  /** The BOLT11 payment request, not parsed yet. */
  request: string;
  /** Null if the mint does not say. */
  amountSat: number | null;
  /** As the mint sent it: Unix seconds, null, or 0 from mints whose backend gives no expiry. */
  expiry: number | null;
  /** The lock that the mint confirmed, in lower case; null for an unlocked quote. */
  pubkey: string | null;
}

/** Longer than any invoice with a description; longer ones do not fit a QR code either. */
const MAX_REQUEST_LENGTH = 8192;

/** An opaque id goes into URLs, rows and JSON: visible ASCII only, and not what a URL treats as a folder. */
const QUOTE_ID = z
  .string()
  .max(MAX_QUOTE_ID_LENGTH)
  .regex(/^[\x21-\x7e]+$/)
  .refine((id) => id !== '.' && id !== '..');

/** Optional fields; malformed ones count as absent. */
const AMOUNT = z.number().int().nonnegative().optional().catch(undefined);
const TEXT = z.string().max(MAX_REQUEST_LENGTH).optional().catch(undefined);

const CREATED = z.object({
  quote: QUOTE_ID,
  request: z.string().min(1).max(MAX_REQUEST_LENGTH),
  unit: z.literal('sat').nullish(),
  amount: AMOUNT,
  // `nullish`, because null is valid here, and `catch` is slow.
  expiry: z.number().nullish().catch(null),
  pubkey: z.string().max(MAX_REQUEST_LENGTH).nullish().catch(null),
});

const OBSERVED = z.object({
  quote: QUOTE_ID,
  state: TEXT,
  amount: AMOUNT,
  amount_paid: AMOUNT,
  amount_issued: AMOUNT,
  request: TEXT,
});

export function isQuoteId(text: string): boolean {
  return QUOTE_ID.safeParse(text).success;
}

/** Parses the answer to a quote's creation; null if it is unusable. */
export function parseCreatedQuote(answer: unknown): CreatedQuote | null {
  const { data } = CREATED.safeParse(answer);
  return data === undefined
    ? null
    : {
        quoteId: data.quote,
        request: data.request,
        amountSat: data.amount ?? null,
        expiry: data.expiry ?? null,
        pubkey: data.pubkey ? data.pubkey.toLowerCase() : null,
      };
}

/**
 * Parses a later report of a quote, from a read, a batch check or a socket; null if it is malformed or
 * its state is unknown.
 */
export function parseObservation(answer: unknown): QuoteObservation | null {
  const { data } = OBSERVED.safeParse(answer);
  if (data === undefined) {
    return null;
  }
  const state = observedState(data);
  if (state === null) {
    return null;
  }
  return {
    quoteId: data.quote,
    state,
    ...(data.amount !== undefined && { amountSat: data.amount }),
    ...(data.request !== undefined && { request: data.request }),
  };
}

/**
 * Derives the state of a quote from a mint's answer.
 *
 * `PENDING` comes first: a mint reports it while it signs, before it updates the amounts. The amounts come
 * next, because NUT-04 deprecates `state` in favour of them.
 *
 * @returns null if the state is unknown
 */
function observedState({
  state,
  amount_paid: paid,
  amount_issued: issued,
}: z.infer<typeof OBSERVED>): ObservedState | null {
  if (state === 'PENDING') {
    return 'INFLIGHT';
  }
  const hasAmounts = paid !== undefined && issued !== undefined;
  if (hasAmounts && paid > issued) {
    return 'PAID';
  }
  if (hasAmounts && paid === issued && paid > 0) {
    return 'ISSUED';
  }
  if (state === 'UNPAID' || state === 'PAID' || state === 'ISSUED') {
    return state;
  }
  return state === undefined && hasAmounts && paid === issued ? 'UNPAID' : null;
}
