import { z } from 'zod';
import type { QuoteState } from '../database/schema.ts';

/** A state that a mint reports. `INFLIGHT` is `PENDING` at mints: the invoice is paid, and the mint is signing. */
export type ObservedState = Exclude<QuoteState, 'EXPIRED'>;

/** What a mint reports about an existing quote. `amountSat` and `request` are only compared with the stored quote. */
export interface QuoteObservation {
  quoteId: string;
  state: ObservedState;
  amountSat?: number | undefined;
  request?: string | undefined;
}

/** The ids of known mints have 36 to 43 characters. */
export const MAX_QUOTE_ID_LENGTH = 256;

export type CreatedQuote = z.infer<typeof createdQuoteSchema>;

/** Longer than any invoice with a description. */
const MAX_REQUEST_LENGTH = 8192;

/** A whole number, at least 0. Mints that use cashu-ts write amounts as text in JSON. */
export const wholeNumberSchema = z
  .union([
    z.number(),
    z
      .string()
      .regex(/^\d{1,16}$/)
      .transform(Number),
  ])
  .pipe(z.int().nonnegative());

/** Ids become part of URLs, so they must be visible ASCII and not a dot segment. */
const quoteIdSchema = z
  .string()
  .max(MAX_QUOTE_ID_LENGTH)
  .regex(/^[\x21-\x7e]+$/)
  .refine((id) => id !== '.' && id !== '..');

/** Malformed optional fields count as absent. */
const amountSchema = wholeNumberSchema.optional().catch(undefined);

const stateShape = {
  state: z.string().max(32).toUpperCase().optional().catch(undefined),
  amount_paid: amountSchema,
  amount_issued: amountSchema,
  // From mints before `state` was introduced.
  paid: z.boolean().optional().catch(undefined),
};

const createdQuoteSchema = z
  .object({
    ...stateShape,
    quote: quoteIdSchema,
    request: z.string().min(1).max(MAX_REQUEST_LENGTH),
    unit: z.literal('sat').nullish(),
    amount: amountSchema,
    expiry: wholeNumberSchema.nullable().catch(null),
    pubkey: z.string().max(MAX_REQUEST_LENGTH).toLowerCase().nullable().catch(null),
  })
  .transform(({ quote, request, amount = null, expiry, pubkey, ...status }) => ({
    quoteId: quote,
    request,
    amountSat: amount,
    // In Unix seconds; null or 0 if the mint's Lightning node sets no expiry.
    expiry,
    pubkey: pubkey || null,
    // Null if this service cannot read the state, and so would not notice the payment.
    state: deriveState(status),
  }));

const observedQuoteSchema = z.object({
  ...stateShape,
  quote: quoteIdSchema,
  amount: amountSchema,
  request: z.string().max(MAX_REQUEST_LENGTH).optional().catch(undefined),
});

export function isQuoteId(text: string): boolean {
  return quoteIdSchema.safeParse(text).success;
}

export function parseCreatedQuote(body: unknown): CreatedQuote | null {
  return createdQuoteSchema.safeParse(body).data ?? null;
}

/** Returns null if the report is malformed or its state is unknown. */
export function parseQuoteObservation(body: unknown): QuoteObservation | null {
  const { data } = observedQuoteSchema.safeParse(body);
  const state = data && deriveState(data);
  return state
    ? { quoteId: data.quote, state, amountSat: data.amount, request: data.request }
    : null;
}

/** Returns null if the state is unknown. The amounts take precedence over `state`, which NUT-04 deprecates. */
function deriveState(report: z.infer<z.ZodObject<typeof stateShape>>): ObservedState | null {
  const { state, amount_paid: amountPaid, amount_issued: amountIssued, paid: isPaid } = report;
  // A mint reports it while it signs, before it updates the amounts.
  if (state === 'PENDING') {
    return 'INFLIGHT';
  }
  const hasAmounts = amountPaid !== undefined && amountIssued !== undefined;
  if (hasAmounts && amountPaid > amountIssued) {
    return 'PAID';
  }
  if (hasAmounts && amountPaid === amountIssued && amountPaid > 0) {
    return 'ISSUED';
  }
  if (state === 'UNPAID' || state === 'PAID' || state === 'ISSUED') {
    return state;
  }
  if (isPaid === true) {
    return 'PAID';
  }
  const isUnpaid = isPaid === false || (hasAmounts && amountPaid === 0 && amountIssued === 0);
  return state === undefined && isUnpaid ? 'UNPAID' : null;
}
