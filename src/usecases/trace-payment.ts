import type { Clock } from '../domain/clock.ts';
import { printable } from '../domain/foreign-text.ts';
import type { QuoteEvent } from '../domain/quote-event.ts';
import { type QuoteOutlook, quoteOutlook } from '../domain/quote-outlook.ts';
import { readTraceSubject, type TraceSubject } from '../domain/trace-subject.ts';
import { type MintRoute, parseKnownLimits } from '../mint/mint-rate-limiter.ts';
import type { Store } from '../store/store.ts';
import type { MintOwner, TracedQuote } from '../store/trace-store.ts';
import type { TracedReceipt } from '../store/zap-receipt-store.ts';

/** Quotes with one payment hash or id: more than one is a mint's mistake, more than a few its malice. */
const MAX_ALIKE = 5;

/** Of a recipient's payments, and of the quotes that nobody has paid yet, so many are shown. */
const NEWEST_SHOWN = 10;

/** A quote as an operator may see it; its id is null where that is secret and was not asked for. */
export type ShownQuote = Omit<TracedQuote, 'id' | 'quoteId'> & { quoteId: string | null };

/** The routes by which a mint is asked about quotes. */
const POLLING_ROUTES = ['check', 'read'] as const satisfies MintRoute[];

/** A known rate limit of a mint. */
export interface MintLimit {
  route: (typeof POLLING_ROUTES)[number];
  requestsPerMinute: number;
}

/** A payment, expected or made: what happened, and what happens next. */
export interface PaymentTrace {
  quote: ShownQuote;
  /** The recipient's purchased name; null where there is none. */
  recipientName: string | null;
  /** The oldest first; those of long ago are forgotten. */
  events: QuoteEvent[];
  outlook: QuoteOutlook;
  /** The process that asks the quote's mint; null where none does, or nothing is to be asked. */
  watchedBy: MintOwner | null;
  /** How the mint limits polls; empty if no limit is known, or the quote is not watched. */
  mintLimits: MintLimit[];
  /** Of a zap that was paid, with relays' words made printable; null where there is none. */
  receipt: TracedReceipt | null;
}

/** A recipient's newest payments and open quotes, the newest first. */
export interface RecipientTrace {
  /** Hex. */
  pubkey: string;
  name: string | null;
  payments: ShownQuote[];
  /** How many payments there are in all. */
  paymentCount: number;
  /** Not paid yet, and still watched. */
  openQuotes: ShownQuote[];
  /** Whether there are older ones that are left out. */
  hasMoreOpenQuotes: boolean;
}

/** What was found. */
export type Trace =
  | { outcome: 'payments'; nowMs: number; payments: PaymentTrace[] }
  | { outcome: 'recipient'; nowMs: number; recipient: RecipientTrace }
  /** By what it was sought, in this order. */
  | { outcome: 'not_found'; soughtAs: TraceSubject['kind'][] }
  | { outcome: 'invalid_invoice' | 'invalid_npub' | 'invalid_quote_id' };

/** Answers an operator who asks where a payment is. Changes nothing, and asks no mint. */
export class TracePayment {
  readonly #store: Traceable;
  readonly #clock: Clock;

  constructor(store: Traceable, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /**
   * Finds a payment, or a recipient's newest.
   *
   * @param text as {@link readTraceSubject} takes it
   * @param options.reveal whether to give the ids of unlocked quotes, with which anybody can take the
   *   money
   */
  async trace(text: string, options: { reveal: boolean }): Promise<Trace> {
    const reading = readTraceSubject(text);
    if (reading.outcome !== 'read') {
      return reading;
    }
    for (const candidate of reading.candidates) {
      const found = await this.#find(candidate, options.reveal);
      if (found !== null) {
        return found;
      }
    }
    return { outcome: 'not_found', soughtAs: reading.candidates.map(({ kind }) => kind) };
  }

  async #find(subject: TraceSubject, reveal: boolean): Promise<Trace | null> {
    const { traces, users } = this.#store;
    switch (subject.kind) {
      case 'payment_hash':
        return this.#tracePayments(
          await traces.findByPaymentHash(subject.paymentHash, MAX_ALIKE),
          reveal,
        );
      case 'quote_id':
        return this.#tracePayments(await traces.findByQuoteId(subject.quoteId, MAX_ALIKE), reveal);
      case 'pubkey':
        return this.#traceRecipient(subject.pubkey, reveal);
      case 'name': {
        const user = await users.findByName(subject.name);
        return user === null ? null : this.#traceRecipient(user.pubkey, reveal);
      }
    }
  }

  async #tracePayments(quotes: readonly TracedQuote[], reveal: boolean): Promise<Trace | null> {
    const nowMs = this.#clock();
    const payments: PaymentTrace[] = [];
    for (const quote of quotes) {
      payments.push(await this.#tracePayment(quote, nowMs, reveal));
    }
    return payments.length === 0 ? null : { outcome: 'payments', nowMs, payments };
  }

  async #tracePayment(quote: TracedQuote, nowMs: number, reveal: boolean): Promise<PaymentTrace> {
    const { traces, events, users, zapReceipts } = this.#store;
    const isWatched = quote.watchUntilMs !== null;
    return {
      quote: shown(quote, reveal),
      recipientName: (await users.find(quote.pubkey))?.name ?? null,
      // Which sockets were told is written a moment later than what they were told of.
      events: (await events.list(quote.id)).toSorted((a, b) => a.atMs - b.atMs),
      outlook: quoteOutlook(quote, nowMs),
      watchedBy: isWatched ? await traces.ownerOf(quote.mintUrl) : null,
      mintLimits: isWatched ? await this.#limitsOf(quote.mintUrl) : [],
      receipt: quote.isZap ? shownReceipt(await zapReceipts.findByQuote(quote.id)) : null,
    };
  }

  async #limitsOf(mintUrl: string): Promise<MintLimit[]> {
    const limits = parseKnownLimits(await this.#store.mints.readRateLimits(mintUrl));
    return POLLING_ROUTES.flatMap((route) => {
      const requestsPerMinute = limits[route]?.count;
      return requestsPerMinute === undefined ? [] : [{ route, requestsPerMinute }];
    });
  }

  async #traceRecipient(pubkey: string, reveal: boolean): Promise<Trace | null> {
    const { traces, users } = this.#store;
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
    return { outcome: 'recipient', nowMs: this.#clock(), recipient };
  }
}

type Traceable = Pick<Store, 'traces' | 'events' | 'users' | 'mints' | 'zapReceipts'>;

/** Whoever has the id of an unlocked quote can mint its money (NUT-04); of a locked one, its key alone. */
function shown({ id: _, quoteId, ...quote }: TracedQuote, reveal: boolean): ShownQuote {
  return { ...quote, quoteId: quote.locked || reveal ? quoteId : null };
}

/** A relay's url is printable as it is: normalised, it has no character but of ASCII, and no space. */
function shownReceipt(receipt: TracedReceipt | null): TracedReceipt | null {
  return (
    receipt && {
      ...receipt,
      deliveries: receipt.deliveries.map(({ standing, lastWord, ...delivery }) => ({
        ...delivery,
        lastWord: shownWord(lastWord),
        standing: standing && { ...standing, word: shownWord(standing.word) },
      })),
    }
  );
}

/** Null where nothing of a relay's word can be shown. */
function shownWord(word: string | null): string | null {
  return printable(word ?? '') || null;
}
