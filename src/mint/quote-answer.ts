import { z } from 'zod';
import { MAX_QUOTE_ID_LENGTH } from '../domain/limits.ts';
import { observedState } from '../domain/observed-state.ts';
import type { QuoteObservation } from '../domain/quote.ts';

/** The facts of a quote that its mint has just created (NUT-04, NUT-23). */
export interface CreatedQuote {
  quoteId: string;
  /** The BOLT11 payment request, unread. */
  request: string;
  /** Null where the mint does not say. */
  amountSat: number | null;
  /** As it came: Unix seconds, or null, or 0 from mints whose backend names no expiry. */
  expiry: number | null;
  /** The lock that the mint confirmed, in lower case; null for an unlocked quote. */
  pubkey: string | null;
}

/** Longer than any invoice with a description; longer ones do not fit a QR code either. */
const MAX_REQUEST_LENGTH = 8192;

/**
 * An id is opaque, but goes into urls, rows and JSON: visible ASCII only. The two that a url would
 * take for a folder are no ids.
 */
const QUOTE_ID = z
  .string()
  .max(MAX_QUOTE_ID_LENGTH)
  .regex(/^[\x21-\x7e]+$/)
  .refine((id) => id !== '.' && id !== '..');

/** A field that is taken where it is what it should be, and passed over where it is not. */
const AMOUNT = z.number().int().nonnegative().optional().catch(undefined);
const TEXT = z.string().max(MAX_REQUEST_LENGTH).optional().catch(undefined);

const CREATED = z.object({
  quote: QUOTE_ID,
  request: z.string().min(1).max(MAX_REQUEST_LENGTH),
  unit: z.literal('sat').nullish(),
  amount: AMOUNT,
  // Null where there is none, which is no mistake: to pass over one takes longer than to read the others.
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

/** Whether a text can be the id of a quote. */
export function isQuoteId(text: string): boolean {
  return QUOTE_ID.safeParse(text).success;
}

/** Reads the answer to a quote's creation; null where it is not one that can be used. */
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
 * Reads a mint's later word on a quote, from a read, a batch check or a socket; null where it is
 * malformed or of an unknown state.
 */
export function parseObservation(answer: unknown): QuoteObservation | null {
  const { data } = OBSERVED.safeParse(answer);
  if (data === undefined) {
    return null;
  }
  const state = observedState({
    state: data.state,
    amountPaid: data.amount_paid,
    amountIssued: data.amount_issued,
  });
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
