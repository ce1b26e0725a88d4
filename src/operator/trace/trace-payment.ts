import type { Clock } from '../../clock.ts';
import { parseKnownLimits } from '../../mints/mint-rate-limiter.ts';
import type { QuoteEvent } from '../../quotes/quote-event-store.ts';
import type { Store } from '../../store.ts';
import type { TracedReceipt } from '../../zaps/zap-receipt-store.ts';
import { type QuoteOutlook, quoteOutlook } from './quote-outlook.ts';
import type { MintOwner, TracedQuote } from './trace-store.ts';
import { readTraceSubject, type TraceSubject } from './trace-subject.ts';

/** Quotes shown for one payment hash or id. Only a mint that repeats itself has more than one. */
const MAX_ALIKE = 5;

/** Payments, and open quotes, shown of a recipient. */
const NEWEST_SHOWN = 10;

const POLLING_ROUTES = ['check', 'read'] as const;

/** A quote as an operator may see it; its id is null if it is secret and `reveal` was not given. */
export type ShownQuote = Omit<TracedQuote, 'id' | 'quoteId'> & { quoteId: string | null };

interface MintLimit {
  route: (typeof POLLING_ROUTES)[number];
  requestsPerMinute: number;
}

/** A payment, expected or made: its past, and what happens next. */
export interface PaymentTrace {
  quote: ShownQuote;
  /** The recipient's name; null if there is none. */
  recipientName: string | null;
  /** Oldest first, as far as they are kept. */
  events: QuoteEvent[];
  outlook: QuoteOutlook;
  /** The process that polls the mint; null if there is none, or the quote is not watched. */
  watchedBy: MintOwner | null;
  /** How the mint limits polls; empty if no limit is known, or the quote is not watched. */
  mintLimits: MintLimit[];
  /** The receipt of a paid zap; null if there is none. */
  receipt: TracedReceipt | null;
}

/** A recipient's newest payments and open quotes, newest first. */
export interface RecipientTrace {
  /** Hex. */
  pubkey: string;
  name: string | null;
  payments: ShownQuote[];
  /** Including those that are not shown. */
  paymentCount: number;
  /** Unpaid and still watched. */
  openQuotes: ShownQuote[];
  hasMoreOpenQuotes: boolean;
}

/** What was found. */
export type Trace =
  | { outcome: 'payments'; nowMs: number; payments: PaymentTrace[] }
  | { outcome: 'recipient'; nowMs: number; recipient: RecipientTrace }
  /** `soughtAs`: what the text was taken for, in this order. */
  | { outcome: 'not_found'; soughtAs: TraceSubject['kind'][] }
  | { outcome: 'invalid_invoice' | 'invalid_npub' | 'invalid_quote_id' };

interface Parts {
  store: Pick<Store, 'traces' | 'events' | 'users' | 'mints' | 'zapReceipts'>;
  clock: Clock;
}

/**
 * Finds a payment, or a recipient's newest. Changes nothing, and sends no request to a mint.
 *
 * @param text as {@link readTraceSubject} reads it
 * @param options.reveal whether to show the ids of unlocked quotes, with which anybody can take the money
 */
export async function tracePayment(
  parts: Parts,
  text: string,
  { reveal }: { reveal: boolean },
): Promise<Trace> {
  const reading = readTraceSubject(text);
  if (reading.outcome !== 'read') {
    return reading;
  }
  for (const candidate of reading.candidates) {
    const found = await find(parts, candidate, reveal);
    if (found !== null) {
      return found;
    }
  }
  return { outcome: 'not_found', soughtAs: reading.candidates.map(({ kind }) => kind) };
}

async function find(parts: Parts, subject: TraceSubject, reveal: boolean): Promise<Trace | null> {
  const { traces, users } = parts.store;
  switch (subject.kind) {
    case 'payment_hash':
      return traceQuotes(
        parts,
        await traces.findByPaymentHash(subject.paymentHash, MAX_ALIKE),
        reveal,
      );
    case 'quote_id':
      return traceQuotes(parts, await traces.findByQuoteId(subject.quoteId, MAX_ALIKE), reveal);
    case 'pubkey':
      return traceRecipient(parts, subject.pubkey, reveal);
    case 'name': {
      const user = await users.findByName(subject.name);
      return user === null ? null : traceRecipient(parts, user.pubkey, reveal);
    }
  }
}

async function traceQuotes(
  { store, clock }: Parts,
  quotes: readonly TracedQuote[],
  reveal: boolean,
): Promise<Trace | null> {
  const nowMs = clock();
  const payments: PaymentTrace[] = [];
  for (const quote of quotes) {
    const { mintUrl, pubkey, isZap } = quote;
    const isWatched = quote.watchUntilMs !== null;
    const events = await store.events.list(quote.id);
    payments.push({
      quote: shown(quote, reveal),
      recipientName: (await store.users.find(pubkey))?.name ?? null,
      // An event about sockets may be stored later than one that happened after it.
      events: events.toSorted((a, b) => a.atMs - b.atMs),
      outlook: quoteOutlook(quote, nowMs),
      watchedBy: isWatched ? await store.traces.ownerOf(mintUrl) : null,
      mintLimits: isWatched ? limitsIn(await store.mints.readRateLimits(mintUrl)) : [],
      receipt: isZap ? await store.zapReceipts.findByQuote(quote.id) : null,
    });
  }
  return payments.length === 0 ? null : { outcome: 'payments', nowMs, payments };
}

async function traceRecipient(
  { store: { traces, users }, clock }: Parts,
  pubkey: string,
  reveal: boolean,
): Promise<Trace | null> {
  const user = await users.find(pubkey);
  const { quotes, total } = await traces.listPayments(pubkey, NEWEST_SHOWN);
  const open = await traces.listOpen(pubkey, NEWEST_SHOWN + 1);
  if (user === null && total === 0 && open.length === 0) {
    return null;
  }
  const recipient: RecipientTrace = {
    pubkey,
    name: user?.name ?? null,
    payments: quotes.map((quote) => shown(quote, reveal)),
    paymentCount: total,
    openQuotes: open.slice(0, NEWEST_SHOWN).map((quote) => shown(quote, reveal)),
    hasMoreOpenQuotes: open.length > NEWEST_SHOWN,
  };
  return { outcome: 'recipient', nowMs: clock(), recipient };
}

/** Anyone who has the id of an unlocked quote can mint its ecash (NUT-04); of a locked one, only its key can. */
function shown({ id: _, quoteId, ...quote }: TracedQuote, reveal: boolean): ShownQuote {
  return { ...quote, quoteId: quote.locked || reveal ? quoteId : null };
}

function limitsIn(stored: unknown): MintLimit[] {
  const limits = parseKnownLimits(stored);
  return POLLING_ROUTES.flatMap((route) => {
    const requestsPerMinute = limits[route]?.count;
    return requestsPerMinute === undefined ? [] : [{ route, requestsPerMinute }];
  });
}
