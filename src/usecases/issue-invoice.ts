import { randomBytes } from 'node:crypto';
import { readInvoice } from '../domain/bolt11.ts';
import type { Clock } from '../domain/clock.ts';
import { Refusal } from '../domain/errors.ts';
import { amountProblem, type SendableRange, toSat } from '../domain/lnurl.ts';
import { firstCheck } from '../domain/poll-schedule.ts';
import { quoteExpiresAt } from '../domain/quote-expiry.ts';
import { lockingKey } from '../domain/recipient.ts';
import type { Log } from '../log.ts';
import type { MintClient } from '../mint/mint-client.ts';
import type { CreatedQuote } from '../mint/quote-answer.ts';
import type { NewQuote } from '../store/quote-store.ts';
import type { Store } from '../store/store.ts';
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
  readonly #mints: Pick<MintClient, 'createQuote'>;
  readonly #quotes: Pick<Store['quotes'], 'insert'>;
  readonly #onIssued: (mintUrl: string, quoteId: string) => void;
  readonly #clock: Clock;
  readonly #log: Log;

  /** @param onIssued told of a new quote after it is kept, so that its mint can be watched at once */
  constructor(parts: {
    terms: PaymentTerms;
    mints: Pick<MintClient, 'createQuote'>;
    quotes: Pick<Store['quotes'], 'insert'>;
    onIssued: (mintUrl: string, quoteId: string) => void;
    clock: Clock;
    log: Log;
  }) {
    this.#terms = parts.terms;
    this.#mints = parts.mints;
    this.#quotes = parts.quotes;
    this.#onIssued = parts.onIssued;
    this.#clock = parts.clock;
    this.#log = parts.log;
  }

  /**
   * Issues an invoice. The quote is committed before the invoice leaves, so that no payment can
   * come in that we do not know of.
   *
   * @param amountMsat millisatoshis, whole sats within the recipient's range
   * @throws Refusal where the amount is not possible or the mint gives no invoice that can be trusted
   */
  async issue(recipient: Recipient, amountMsat: number): Promise<Invoice> {
    const range = await this.#terms.rangeForInvoice(recipient);
    refuseWrongAmount(amountMsat, range);

    const created = await this.#createQuote(recipient, toSat(amountMsat));
    const quote = this.#checked(created, recipient, amountMsat);
    if (quote === null || !(await this.#quotes.insert(quote))) {
      this.#log.warn(
        { mintUrl: recipient.mintUrl },
        'a mint answered with a quote that cannot be trusted; its invoice was not handed out',
      );
      throw mintTrouble();
    }
    this.#onIssued(quote.mintUrl, quote.quoteId);
    return { request: quote.request, verifyToken: quote.verifyToken };
  }

  async #createQuote(recipient: Recipient, amountSat: number): Promise<CreatedQuote> {
    const answer = await this.#mints.createQuote(recipient.mintUrl, {
      amountSat,
      ...(recipient.lockQuotes ? { pubkey: lockingKey(recipient.pubkey) } : {}),
    });
    if (answer.outcome !== 'created') {
      this.#log.info({ mintUrl: recipient.mintUrl, ...answer }, 'a mint gave no quote');
      throw mintTrouble();
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
