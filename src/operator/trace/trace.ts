import { hash } from 'node:crypto';
import type { QuoteState } from '../../database/schema.ts';
import { findMintHealth, loadMintInfo } from '../../mints/mint-store.ts';
import { listNotificationsOfQuote } from '../../notifications/outbox-store.ts';
import { listQuoteEvents } from '../../quotes/quote-event-store.ts';
import { findUserByName, findUserByPubkey } from '../../recipients/user-store.ts';
import { findReceiptOfQuote } from '../../zaps/zap-receipt-store.ts';
import type { CommandContext } from '../command.ts';
import { parseTraceIdentifier, type TraceIdentifier } from './trace-identifier.ts';
import {
  findMintLeaseHolder,
  findTracedQuotes,
  type QuoteFilter,
  searchQuotes,
  type TracedQuote,
} from './trace-store.ts';

export type RedactedQuote = ReturnType<typeof redactQuote>;
export type PaymentTrace = Awaited<ReturnType<typeof traceQuote>>;
export type RecipientTrace = NonNullable<Awaited<ReturnType<typeof traceRecipient>>>;

export type TraceResult =
  | { outcome: 'payments'; nowMs: number; payments: PaymentTrace[] }
  | RecipientTrace
  | { outcome: 'not_found'; triedKinds: TraceIdentifier['kind'][] }
  | { outcome: 'invalid_invoice' | 'invalid_npub' | 'invalid_quote_id' | 'not_a_recipient' };

interface TraceContext extends Pick<CommandContext, 'db' | 'clock'> {
  /** Whether to show the ids of unlocked quotes. Anyone who has such an id can take the money. */
  reveal: boolean;
  limit: number;
  /** Which quotes of a recipient to list; null lists all. With a filter, only recipients can be traced. */
  filter: QuoteFilter | null;
}

/** Finds a payment, or a recipient's newest payments. Changes nothing and sends no request to a mint. */
export async function runTrace(context: TraceContext, text: string): Promise<TraceResult> {
  const parsed = parseTraceIdentifier(text);
  if (parsed.outcome !== 'parsed') {
    return parsed;
  }
  const isRecipient = ({ kind }: TraceIdentifier) => kind === 'pubkey' || kind === 'name';
  const candidates =
    context.filter === null ? parsed.candidates : parsed.candidates.filter(isRecipient);
  if (candidates.length === 0) {
    return { outcome: 'not_a_recipient' };
  }
  for (const candidate of candidates) {
    const trace = await traceIdentifier(context, candidate);
    if (trace !== null) {
      return trace;
    }
  }
  return { outcome: 'not_found', triedKinds: candidates.map(({ kind }) => kind) };
}

async function traceIdentifier(
  context: TraceContext,
  { kind, value }: TraceIdentifier,
): Promise<TraceResult | null> {
  switch (kind) {
    case 'payment_hash':
    case 'quote_id':
      return traceQuotes(context, kind, value);
    case 'verify_token':
      return traceQuotes(context, 'verify_token_hash', hash('sha256', value));
    case 'pubkey':
      return traceRecipient(context, value);
    case 'name': {
      const user = await findUserByName(context.db, value);
      return user === null ? null : traceRecipient(context, user.pubkey);
    }
  }
}

async function traceQuotes(
  context: TraceContext,
  column: 'payment_hash' | 'quote_id' | 'verify_token_hash',
  value: string,
): Promise<TraceResult | null> {
  const nowMs = context.clock();
  const quotes = await findTracedQuotes(context.db, column, value, 5);
  const payments = await Promise.all(quotes.map((quote) => traceQuote(context, quote, nowMs)));
  return payments.length === 0 ? null : { outcome: 'payments', nowMs, payments };
}

async function traceQuote({ db, reveal }: TraceContext, quote: TracedQuote, nowMs: number) {
  const { id, mintUrl, pubkey, isZap, watchUntilMs } = quote;
  const isWatched = watchUntilMs !== null;
  const events = await listQuoteEvents(db, id);
  return {
    ...redactQuote(quote, reveal),
    recipientName: (await findUserByPubkey(db, pubkey))?.name ?? null,
    // Sorts again, because `update_sent` events are stored with a delay.
    events: events.toSorted((a, b) => a.atMs - b.atMs),
    paymentStatus: { kind: derivePaymentStatus(quote, nowMs) },
    leaseHolder: isWatched ? await findMintLeaseHolder(db, mintUrl) : null,
    mintHealth: isWatched ? await findMintHealth(db, mintUrl) : null,
    mintVersion: (await loadMintInfo(db, mintUrl))?.version ?? null,
    notifications: await listNotificationsOfQuote(db, id),
    receipt: isZap ? await findReceiptOfQuote(db, id) : null,
  };
}

async function traceRecipient({ db, clock, reveal, limit, filter }: TraceContext, pubkey: string) {
  const user = await findUserByPubkey(db, pubkey);
  const paymentCount = user?.paymentCount ?? 0;
  const payments = await searchQuotes(db, pubkey, 'paid', filter, limit + 1);
  const unpaid = await searchQuotes(db, pubkey, 'unpaid', filter, limit + 1);
  // With a filter, quotes that can no longer be paid are listed, too.
  const listedUnpaid =
    filter === null ? unpaid.filter(({ watchUntilMs }) => watchUntilMs !== null) : unpaid;
  if (user === null && paymentCount === 0 && listedUnpaid.length === 0) {
    return null;
  }
  const redactListed = (quotes: readonly TracedQuote[]) =>
    quotes.slice(0, limit).map((quote) => redactQuote(quote, reveal));
  return {
    outcome: 'recipient' as const,
    nowMs: clock(),
    pubkey,
    name: user?.name ?? null,
    payments: redactListed(payments),
    paymentCount,
    openQuotes: redactListed(listedUnpaid),
    hasMoreOpenQuotes: listedUnpaid.length > limit,
    search: filter && { ...filter, hasMorePayments: payments.length > limit },
  };
}

/** Hides the id of an unlocked quote unless `reveal` is true: anyone who has it can mint the ecash (NUT-04). */
function redactQuote({ id: _, quoteId, ...quote }: TracedQuote, reveal: boolean) {
  return { ...quote, quoteId: quote.locked || reveal ? quoteId : null };
}

/** Returns what is expected to happen next. */
export function derivePaymentStatus(
  quote: { state: QuoteState; expiresAtMs: number; watchUntilMs: number | null },
  nowMs: number,
) {
  const isWatched = quote.watchUntilMs !== null;
  const lateStatus = isWatched ? 'awaiting_late_payment' : 'given_up';
  const statuses = {
    UNPAID: nowMs < quote.expiresAtMs ? 'awaiting_payment' : lateStatus,
    EXPIRED: 'given_up',
    INFLIGHT: isWatched ? 'being_collected' : 'left_uncollected',
    PAID: isWatched ? 'awaiting_collection' : 'left_uncollected',
    ISSUED: 'issued',
  } as const;
  return statuses[quote.state];
}
