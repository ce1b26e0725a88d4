import { randomBytes } from 'node:crypto';
import { readInvoice } from '../domain/bolt11.ts';
import type { Clock } from '../domain/clock.ts';
import { Refusal } from '../domain/errors.ts';
import {
  describeInvoice,
  type InvoiceDescription,
  type InvoiceWords,
} from '../domain/invoice-description.ts';
import { amountProblem, type SendableRange, toSat } from '../domain/lnurl.ts';
import { latePaymentUntilMs } from '../domain/poll-schedule.ts';
import { quoteExpiresAt } from '../domain/quote-expiry.ts';
import { lockingKey } from '../domain/recipient.ts';
import type { Log } from '../log.ts';
import type { LimitedMintClient } from '../mint/limited-mint-client.ts';
import type { MintPermit } from '../mint/mint-rate-limiter.ts';
import type { CreatedQuote } from '../mint/quote-answer.ts';
import type { IssuedQuote } from '../notifications/quote-channel.ts';
import type { NewQuote } from '../store/quote-store.ts';
import type { Store } from '../store/store.ts';
import { type Admitted, type InvoiceAdmission, mintRateLimited } from './invoice-admission.ts';
import { InvoiceTimer, type InvoiceTiming } from './invoice-timing.ts';
import { logMilestone } from './milestones.ts';
import { mintTrouble, type PaymentTerms } from './payment-terms.ts';
import type { Recipient } from './recipients.ts';

/** What a payer gets. */
export interface Invoice {
  /** BOLT 11 payment request. */
  request: string;
  /** 64 lowercase hex characters: whoever has it may ask whether this invoice was paid (LUD-21). */
  verifyToken: string;
}

/** What a payer asks for. */
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
  readonly #mints: Pick<LimitedMintClient, 'createQuote'>;
  readonly #quotes: Pick<Store['quotes'], 'insert'>;
  readonly #admission: Pick<InvoiceAdmission, 'admit'>;
  readonly #onIssued: (quote: IssuedQuote) => void;
  readonly #onTimed: (timing: InvoiceTiming) => void;
  readonly #monotonicMs: () => number;
  readonly #clock: Clock;
  readonly #log: Log;

  /**
   * @param parts.onIssued called with each new quote after it is committed, so that it is watched at once
   * @param parts.onTimed called with the timing of each request when it ends
   */
  constructor(parts: {
    terms: PaymentTerms;
    mints: Pick<LimitedMintClient, 'createQuote'>;
    quotes: Pick<Store['quotes'], 'insert'>;
    admission: Pick<InvoiceAdmission, 'admit'>;
    onIssued: (quote: IssuedQuote) => void;
    onTimed: (timing: InvoiceTiming) => void;
    monotonicMs: () => number;
    clock: Clock;
    log: Log;
  }) {
    this.#terms = parts.terms;
    this.#mints = parts.mints;
    this.#quotes = parts.quotes;
    this.#admission = parts.admission;
    this.#onIssued = parts.onIssued;
    this.#onTimed = parts.onTimed;
    this.#monotonicMs = parts.monotonicMs;
    this.#clock = parts.clock;
    this.#log = parts.log;
  }

  /**
   * Issues an invoice. The quote is committed before the invoice is returned, so that every payment finds its quote.
   *
   * @param amountMsat millisatoshis, whole sats within the recipient's range
   * @param payer.addressGroup the payer's IPv4 address, or the /64 of an IPv6 one
   * @param words for the invoice, if its mint accepts them; comment and zap request are stored
   * @throws Refusal if the amount is not possible, the payer is not admitted ({@link InvoiceAdmission}), or the mint
   *   returns no invoice that can be trusted
   */
  async issue(
    recipient: Recipient,
    amountMsat: number,
    payer: { addressGroup: string },
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

  async #place(order: Order, payer: { addressGroup: string }): Promise<Invoice> {
    const { pubkey, mintUrl } = order.recipient;
    const admitted = await this.#admission.admit(
      { recipient: pubkey, addressGroup: payer.addressGroup, mintUrl },
      order.timer,
    );
    try {
      return await this.#storedInvoice(order, admitted);
    } finally {
      admitted.release();
    }
  }

  async #storedInvoice(order: Order, admitted: Admitted): Promise<Invoice> {
    const created = await this.#createQuote(order, admitted.permit);
    const quote = this.#checked(created, order, admitted.addressGroupHash);
    const id = quote && (await this.#quotes.insert(quote));
    if (quote === null || id === null) {
      this.#log.warn(
        { event: 'mint_quote_rejected', mintUrl: order.recipient.mintUrl },
        'mint returned a quote that cannot be trusted; no invoice was issued',
      );
      throw mintTrouble();
    }
    const { pubkey, amountSat, mintUrl, quoteId, createdAtMs, expiresAtMs } = quote;
    this.#onIssued({ id, mintUrl, quoteId, createdAtMs, expiresAtMs });
    const isZap = quote.zapRequest !== null;
    logMilestone(this.#log, 'invoice_made', quote.paymentHash, {
      pubkey,
      amountSat,
      mintUrl,
      isZap,
    });
    return { request: quote.request, verifyToken: quote.verifyToken };
  }

  async #createQuote(
    { recipient, amountMsat, words, description, timer }: Order,
    permit: MintPermit,
  ): Promise<CreatedQuote> {
    const { pubkey, mintUrl, lockQuotes } = recipient;
    const answer = await timer.mint(
      this.#mints.createQuote(mintUrl, permit, {
        amountSat: toSat(amountMsat),
        ...(lockQuotes ? { pubkey: lockingKey(pubkey) } : {}),
        ...description,
      }),
    );
    if (answer.outcome !== 'created') {
      const logged = words.comment === null ? answer : withoutDetail(answer);
      this.#log.info(
        { event: 'mint_created_no_quote', mintUrl, ...logged },
        'mint created no quote',
      );
      throw answer.outcome === 'rate_limited'
        ? mintRateLimited(answer.retryAfterMs)
        : mintTrouble();
    }
    return answer.quote;
  }

  /** Returns the quote to store, or null if the mint's answer does not match the order. */
  #checked(
    created: CreatedQuote,
    { recipient, amountMsat, words: { comment, zapRequest } }: Order,
    addressGroup: string,
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
      watchUntilMs: latePaymentUntilMs({ createdAtMs: nowMs, expiresAtMs }),
      addressGroup,
      comment,
      zapRequest,
    };
  }
}

/** Drops the mint's own text, which may repeat a comment that is meant for the recipient only. */
function withoutDetail<Answer extends { outcome: string; detail?: string }>({
  detail: _detail,
  ...rest
}: Answer): Omit<Answer, 'detail'> {
  return rest;
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
