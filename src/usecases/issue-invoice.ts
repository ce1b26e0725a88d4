import { randomBytes } from 'node:crypto';
import { readInvoice } from '../domain/bolt11.ts';
import type { Clock } from '../domain/clock.ts';
import { Refusal, tooMany } from '../domain/errors.ts';
import { amountProblem, type SendableRange, toSat } from '../domain/lnurl.ts';
import { firstCheck } from '../domain/poll-schedule.ts';
import { quoteExpiresAt } from '../domain/quote-expiry.ts';
import { lockingKey } from '../domain/recipient.ts';
import type { Log } from '../log.ts';
import type { PacedMintClient } from '../mint/paced-mint-client.ts';
import type { CreatedQuote } from '../mint/quote-answer.ts';
import type { NewQuote } from '../store/quote-store.ts';
import type { Store } from '../store/store.ts';
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

/** 256 bits: nobody guesses another payer's token. */
const VERIFY_TOKEN_BYTES = 32;

/** Turns a payer's request into a mint quote of the recipient and its invoice. */
export class IssueInvoice {
  readonly #terms: PaymentTerms;
  readonly #mints: Pick<PacedMintClient, 'createQuote'>;
  readonly #quotes: Pick<Store['quotes'], 'insert'>;
  readonly #openInvoices: OpenInvoices;
  readonly #onIssued: (mintUrl: string, quoteId: string) => void;
  readonly #clock: Clock;
  readonly #log: Log;

  /** @param onIssued told of a new quote after it is kept, so that its mint can be watched at once */
  constructor(parts: {
    terms: PaymentTerms;
    mints: Pick<PacedMintClient, 'createQuote'>;
    quotes: Pick<Store['quotes'], 'insert'>;
    openInvoices: OpenInvoices;
    onIssued: (mintUrl: string, quoteId: string) => void;
    clock: Clock;
    log: Log;
  }) {
    this.#terms = parts.terms;
    this.#mints = parts.mints;
    this.#quotes = parts.quotes;
    this.#openInvoices = parts.openInvoices;
    this.#onIssued = parts.onIssued;
    this.#clock = parts.clock;
    this.#log = parts.log;
  }

  /**
   * Issues an invoice. The quote is committed before the invoice leaves, so that no payment can
   * come in that we do not know of.
   *
   * @param amountMsat millisatoshis, whole sats within the recipient's range
   * @param payer.network whom requests from the payer's address are counted for; it stays in memory
   * @throws Refusal where the amount is not possible, too many invoices were asked for and not paid,
   *   or the mint gives no invoice that can be trusted
   */
  async issue(
    recipient: Recipient,
    amountMsat: number,
    payer: { network: string },
  ): Promise<Invoice> {
    const range = await this.#terms.rangeForInvoice(recipient);
    refuseWrongAmount(amountMsat, range);

    const place = await this.#openInvoices.take(recipient.pubkey, payer.network);
    let quote: NewQuote | null = null;
    try {
      quote = await this.#keptQuote(recipient, amountMsat, payer.network);
    } finally {
      place.settle(quote);
    }
    this.#onIssued(quote.mintUrl, quote.quoteId);
    return { request: quote.request, verifyToken: quote.verifyToken };
  }

  async #keptQuote(recipient: Recipient, amountMsat: number, network: string): Promise<NewQuote> {
    const created = await this.#createQuote(recipient, toSat(amountMsat), network);
    const quote = this.#checked(created, recipient, amountMsat);
    if (quote === null || !(await this.#quotes.insert(quote))) {
      this.#log.warn(
        { mintUrl: recipient.mintUrl },
        'a mint answered with a quote that cannot be trusted; its invoice was not handed out',
      );
      throw mintTrouble();
    }
    return quote;
  }

  async #createQuote(
    recipient: Recipient,
    amountSat: number,
    network: string,
  ): Promise<CreatedQuote> {
    const { pubkey, mintUrl, lockQuotes } = recipient;
    const payment = { recipient: pubkey, network };
    const answer = await this.#mints.createQuote(mintUrl, payment, {
      amountSat,
      ...(lockQuotes ? { pubkey: lockingKey(pubkey) } : {}),
    });
    if (answer.outcome === 'share_used') {
      throw tooMany('This recipient’s mint is asked for too many invoices.', answer.retryAfterMs);
    }
    if (answer.outcome !== 'created') {
      this.#log.info({ mintUrl, ...answer }, 'a mint gave no quote');
      throw answer.outcome === 'rate_limited' ? mintAtRest(answer.retryAfterMs) : mintTrouble();
    }
    return answer.quote;
  }

  /** The quote to keep, or null where the mint's answer is not what was asked for. */
  #checked(created: CreatedQuote, recipient: Recipient, amountMsat: number): NewQuote | null {
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
    };
  }
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
