import { z } from 'zod';
import type { QuoteState } from '../database/schema.ts';

/** The state that a mint reports. Its `PENDING` (it is issuing ecash) is `INFLIGHT` here: the payment has arrived. */
export type ObservedState = Exclude<QuoteState, 'EXPIRED'>;

/**
 * A mint's report of one quote: a read, an entry of a batch check or a notification. Only the state may change
 * after creation. `amountSat` and `request` serve for comparison only and are never stored.
 */
export interface QuoteObservation {
  quoteId: string;
  state: ObservedState;
  amountSat?: number;
  request?: string;
}

/** In practice, ids have 36 to 43 characters. */
export const MAX_QUOTE_ID_LENGTH = 256;

/** A mint's response to the creation of a quote (NUT-04, NUT-23). */
export interface CreatedQuote {
  quoteId: string;
  /** The BOLT11 invoice, not validated. */
  request: string;
  /** Null if the mint does not say. */
  amountSat: number | null;
  /** As the mint sent it: Unix seconds; null or 0 if its backend gives no expiry. */
  expiry: number | null;
  /** The public key to which the mint locked the quote, in lower case; null for an unlocked quote. */
  pubkey: string | null;
}

/** Longer than any invoice with a description. */
const MAX_REQUEST_LENGTH = 8192;

/** Ids become part of URLs: visible ASCII only, and no dot segments. */
const quoteIdSchema = z
  .string()
  .max(MAX_QUOTE_ID_LENGTH)
  .regex(/^[\x21-\x7e]+$/)
  .refine((id) => id !== '.' && id !== '..');

/** Malformed optional fields count as absent. */
const amountSchema = z.number().int().nonnegative().optional().catch(undefined);
const optionalTextSchema = z.string().max(MAX_REQUEST_LENGTH).optional().catch(undefined);

const createdQuoteSchema = z
  .object({
    quote: quoteIdSchema,
    request: z.string().min(1).max(MAX_REQUEST_LENGTH),
    unit: z.literal('sat').nullish(),
    amount: amountSchema,
    expiry: z.number().nullable().catch(null),
    pubkey: z.string().max(MAX_REQUEST_LENGTH).toLowerCase().nullable().catch(null),
  })
  .transform(
    ({ quote: quoteId, request, amount: amountSat = null, expiry, pubkey }): CreatedQuote => ({
      quoteId,
      request,
      amountSat,
      expiry,
      pubkey: pubkey || null,
    }),
  );

const observedQuoteSchema = z.object({
  quote: quoteIdSchema,
  state: optionalTextSchema,
  amount: amountSchema,
  amount_paid: amountSchema,
  amount_issued: amountSchema,
  request: optionalTextSchema,
});

export function isQuoteId(text: string): boolean {
  return quoteIdSchema.safeParse(text).success;
}

/** Parses the response to a quote's creation; null if it is unusable. */
export function parseCreatedQuote(body: unknown): CreatedQuote | null {
  return createdQuoteSchema.safeParse(body).data ?? null;
}

/** Parses a later report of a quote; null if it is malformed or its state is unknown. */
export function parseQuoteObservation(body: unknown): QuoteObservation | null {
  const { data } = observedQuoteSchema.safeParse(body);
  const state = data && deriveState(data);
  return state
    ? {
        quoteId: data.quote,
        state,
        ...(data.amount !== undefined && { amountSat: data.amount }),
        ...(data.request !== undefined && { request: data.request }),
      }
    : null;
}

/**
 * Derives the state of a quote; null if it is unknown. `PENDING` comes first: a mint reports it while it
 * issues ecash, before it updates the amounts. The amounts come next, because NUT-04 deprecates `state`.
 */
function deriveState(quote: z.infer<typeof observedQuoteSchema>): ObservedState | null {
  const { state, amount_paid: paid, amount_issued: issued } = quote;
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
