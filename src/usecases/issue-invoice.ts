import { randomBytes } from 'node:crypto';
import { readInvoice } from '../domain/bolt11.ts';
import type { Clock } from '../domain/clock.ts';
import { Refusal, tooMany } from '../domain/errors.ts';
import {
  describeInvoice,
  type InvoiceDescription,
  type InvoiceWords,
} from '../domain/invoice-description.ts';
import { amountProblem, type SendableRange, toSat } from '../domain/lnurl.ts';
import { firstCheck } from '../domain/poll-schedule.ts';
import { quoteExpiresAt } from '../domain/quote-expiry.ts';
import { lockingKey } from '../domain/recipient.ts';
import type { Log } from '../log.ts';
import type { PacedMintClient } from '../mint/paced-mint-client.ts';
import type { CreatedQuote } from '../mint/quote-answer.ts';
import type { NewQuote } from '../store/quote-store.ts';
import type { Store } from '../store/store.ts';
import { InvoiceTimer, type InvoiceTiming } from './invoice-timing.ts';
import { logMilestone } from './milestones.ts';
import type { OpenInvoices } from './open-invoices.ts';
import { mintTrouble, type PaymentTerms } from './payment-terms.ts';
import type { Recipient } from './recipients.ts';

/** What a payer gets. */
export interface Invoice {
  /** BOLT 11 payment request. */
  request: string;
  /** 64 lowercase hex characters: whoever has it may ask whether this invoice was paid (LUD-21). */
  verifyToken: string;
}

/** What is asked for. */
interface Order {
  recipient: Recipient;
  amountMsat: number;
  words: InvoiceWords;
  description: InvoiceDescription;
  timer: InvoiceTimer;
}

/** 256 bits: nobody guesses another payer's token. */
const VERIFY_TOKEN_BYTES = 32;

/** Turns a payer's request into a mint quote of the recipient and its invoice. */
export class IssueInvoice {
  readonly #terms: PaymentTerms;
  readonly #mints: Pick<PacedMintClient, 'createQuote'>;
  readonly #quotes: Pick<Store['quotes'], 'insert'>;
  readonly #openInvoices: OpenInvoices;
  readonly #onIssued: (mintUrl: string, quoteId: string) => void;
  readonly #onTimed: (timing: InvoiceTiming) => void;
  readonly #monotonicMs: () => number;
  readonly #clock: Clock;
  readonly #log: Log;

  /**
   * @param onIssued told of a new quote after it is kept, so that its mint can be watched at once
   * @param onTimed told of each request, when it has ended
   */
  constructor(parts: {
    terms: PaymentTerms;
    mints: Pick<PacedMintClient, 'createQuote'>;
    quotes: Pick<Store['quotes'], 'insert'>;
    openInvoices: OpenInvoices;
    onIssued: (mintUrl: string, quoteId: string) => void;
    onTimed: (timing: InvoiceTiming) => void;
    monotonicMs: () => number;
    clock: Clock;
    log: Log;
  }) {
    this.#terms = parts.terms;
    this.#mints = parts.mints;
    this.#quotes = parts.quotes;
    this.#openInvoices = parts.openInvoices;
    this.#onIssued = parts.onIssued;
    this.#onTimed = parts.onTimed;
    this.#monotonicMs = parts.monotonicMs;
    this.#clock = parts.clock;
    this.#log = parts.log;
  }

  /**
   * Issues an invoice. The quote is committed before the invoice leaves, so that no payment can
   * come in that we do not know of.
   *
   * @param amountMsat millisatoshis, whole sats within the recipient's range
   * @param payer.network whom requests from the payer's address are counted for; it stays in memory
   * @param words what the invoice may say, where its mint lets it; comment and zap request are kept
   * @throws Refusal where the amount is not possible, too many invoices were asked for and not paid,
   *   or the mint gives no invoice that can be trusted
   */
  async issue(
    recipient: Recipient,
    amountMsat: number,
    payer: { network: string },
    words: InvoiceWords,
  ): Promise<Invoice> {
    const timer = new InvoiceTimer(this.#monotonicMs);
    try {
      const { range, mint } = await timer.mint(this.#terms.forInvoice(recipient));
      refuseWrongAmount(amountMsat, range);
      const description = describeInvoice(mint, words);
      const order = { recipient, amountMsat, words, description, timer };
      const invoice = await this.#place(order, payer);
      this.#onTimed(timer.issued());
      return invoice;
    } catch (error) {
      this.#onTimed(timer.threw(error));
      throw error;
    }
  }

  async #place(order: Order, payer: { network: string }): Promise<Invoice> {
    const { recipient } = order;
    const place = await this.#openInvoices.take(recipient.pubkey, payer.network);
    let quote: NewQuote | null = null;
    try {
      quote = await this.#keptQuote(order, payer.network);
    } finally {
      place.settle(quote);
    }
    this.#onIssued(quote.mintUrl, quote.quoteId);
    const { pubkey, amountSat, mintUrl } = quote;
    const isZap = quote.zapRequest !== null;
    logMilestone(this.#log, 'invoice_made', quote.paymentHash, {
      pubkey,
      amountSat,
      mintUrl,
      isZap,
    });
    return { request: quote.request, verifyToken: quote.verifyToken };
  }

  async #keptQuote(order: Order, network: string): Promise<NewQuote> {
    const created = await this.#createQuote(order, network);
    const quote = this.#checked(created, order);
    if (quote === null || !(await this.#quotes.insert(quote))) {
      this.#log.warn(
        { mintUrl: order.recipient.mintUrl },
        'a mint answered with a quote that cannot be trusted; its invoice was not handed out',
      );
      throw mintTrouble();
    }
    return quote;
  }

  async #createQuote(
    { recipient, amountMsat, words, description, timer }: Order,
    network: string,
  ): Promise<CreatedQuote> {
    const { pubkey, mintUrl, lockQuotes } = recipient;
    const answer = await timer.mint(
      this.#mints.createQuote(
        mintUrl,
        { recipient: pubkey, network },
        {
          amountSat: toSat(amountMsat),
          ...(lockQuotes ? { pubkey: lockingKey(pubkey) } : {}),
          ...description,
        },
      ),
    );
    if (answer.outcome === 'share_used') {
      throw tooMany('This recipient’s mint is asked for too many invoices.', answer.retryAfterMs);
    }
    if (answer.outcome !== 'created') {
      const told = words.comment === null ? answer : withoutDetail(answer);
      this.#log.info({ mintUrl, ...told }, 'a mint gave no quote');
      throw answer.outcome === 'rate_limited' ? mintAtRest(answer.retryAfterMs) : mintTrouble();
    }
    return answer.quote;
  }

  /** The quote to keep, or null where the mint's answer is not what was asked for. */
  #checked(
    created: CreatedQuote,
    { recipient, amountMsat, words: { comment, zapRequest } }: Order,
  ): NewQuote | null {
    const invoice = readInvoice(created.request);
    const nowMs = this.#clock();
    const amountSat = toSat(amountMsat);
    if (
      invoice === null ||
      invoice.amountMsat !== amountMsat ||
      (created.amountSat ?? amountSat) !== amountSat
    ) {
      return null;
    }
    // NUT-20: a mint that forgets the key gives a quote that anyone who learns its id can mint,
    // and one that names another key gives the money to somebody else.
    const expectedKey = recipient.lockQuotes ? lockingKey(recipient.pubkey) : null;
    if (created.pubkey !== expectedKey) {
      return null;
    }
    const expiresAtMs = quoteExpiresAt(created.expiry, invoice) * 1000;
    return {
      mintUrl: recipient.mintUrl,
      quoteId: created.quoteId,
      pubkey: recipient.pubkey,
      request: created.request,
      amountSat,
      locked: recipient.lockQuotes,
      createdAtMs: nowMs,
      expiresAtMs,
      verifyToken: randomBytes(VERIFY_TOKEN_BYTES).toString('hex'),
      paymentHash: invoice.paymentHash,
      nextCheck: firstCheck({ createdAtMs: nowMs, expiresAtMs }),
      comment,
      zapRequest,
    };
  }
}

/** A mint may repeat what it was told, and that is between payer and recipient. */
function withoutDetail<Answer extends { outcome: string; detail?: string }>({
  detail: _detail,
  ...rest
}: Answer): Omit<Answer, 'detail'> {
  return rest;
}

/** @param waitMs until the mint may be asked again; null where nobody knows */
function mintAtRest(waitMs: number | null): Refusal {
  const { nature, message } = mintTrouble();
  return new Refusal(
    nature,
    message,
    waitMs === null ? null : Math.max(1, Math.ceil(waitMs / 1000)),
  );
}

function refuseWrongAmount(amountMsat: number, range: SendableRange): void {
  switch (amountProblem(amountMsat, range)) {
    case null:
      return;
    case 'not_whole_sats':
      throw new Refusal(
        'invalid',
        'The amount must be a whole number of sats (1000 millisatoshis).',
      );
    case 'too_small':
      throw new Refusal('invalid', `The amount must be at least ${range.minMsat} millisatoshis.`);
    case 'too_large':
      throw new Refusal('invalid', `The amount must be at most ${range.maxMsat} millisatoshis.`);
  }
}
