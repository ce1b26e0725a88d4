import { randomBytes } from 'node:crypto';
import type { Clock } from '../clock.ts';
import { Refusal, type RefusalNature } from '../errors.ts';
import type { Log } from '../log.ts';
import {
  describeInvoice,
  type InvoiceDescription,
  type InvoiceWords,
} from '../mints/invoice-description.ts';
import type { MintInfo } from '../mints/mint-info.ts';
import type { MintInfoCache } from '../mints/mint-info-cache.ts';
import type { MintPermit } from '../mints/mint-rate-limiter.ts';
import type { CreatedQuote } from '../mints/quote-answer.ts';
import type { QuoteCreator } from '../mints/quote-creator.ts';
import { lockingKey } from '../recipients/address.ts';
import type { Recipient } from '../recipients/recipients.ts';
import { quoteExpiresAt, readInvoice } from './bolt11.ts';
import { type InvoiceAdmission, mintRateLimited, mintTrouble } from './invoice-admission.ts';
import { amountProblem, type SendableRange, sendableRange, toSat } from './lnurl.ts';
import { logMilestone } from './milestones.ts';
import { latePaymentUntilMs } from './poll-schedule.ts';
import type { IssuedQuote } from './quote-channel.ts';
import type { NewQuote, QuoteWriter } from './quote-store.ts';

/** What a payer gets. */
export interface Invoice {
  /** BOLT 11 payment request. */
  request: string;
  /** 64 lowercase hex characters; with it, anyone can ask whether this invoice was paid (LUD-21). */
  verifyToken: string;
}

/** What a payer asks for. */
interface Order {
  recipient: Recipient;
  amountMsat: number;
  words: InvoiceWords;
}

/** 256 bits, so that a payer cannot guess the token of another one. */
const VERIFY_TOKEN_BYTES = 32;

/** How a request for an invoice ended, and how long it took. */
export interface InvoiceTiming {
  /** The reason of a refusal; `failed` is a bug or a database that does not answer. */
  outcome: 'issued' | RefusalNature | 'failed';
  tookMs: number;
  /** The part of it that was spent on the mint's rate limit and its answers. */
  mintMs: number;
}

export interface IssueInvoiceParts {
  infos: Pick<MintInfoCache, 'get'>;
  /** What the operator permits payers to send. */
  operatorRange: SendableRange;
  mints: Pick<QuoteCreator, 'createQuote'>;
  quotes: Pick<QuoteWriter, 'insert'>;
  admission: Pick<InvoiceAdmission, 'countRequest' | 'admit'>;
  /** Called with each new quote after it is committed, so that it is watched at once. */
  onIssued: (quote: IssuedQuote) => void;
  /** Called with the timing of each request when it ends. */
  onTimed: (timing: InvoiceTiming) => void;
  monotonicMs: () => number;
  clock: Clock;
  log: Log;
}

/** Decides what payers may send, and turns a payer's request into a mint quote of the recipient and its invoice. */
export class IssueInvoice {
  readonly #parts: IssueInvoiceParts;

  constructor(parts: IssueInvoiceParts) {
    this.#parts = parts;
  }

  /**
   * Returns what payers may send to a recipient: the operator's range, narrowed by the limits of the recipient's mint
   * (LUD-06, NUT-06). A mint that never answered narrows nothing.
   *
   * @throws Refusal if the mint does not accept payments
   */
  async rangeFor(recipient: Recipient): Promise<SendableRange> {
    return this.#rangeAt(await this.#parts.infos.get(recipient.mintUrl));
  }

  /**
   * Issues an invoice. The quote is committed before the invoice is returned, so that every payment finds its quote.
   *
   * @param amountMsat millisatoshis, whole sats within the recipient's range
   * @param payer.addressGroup the payer's IPv4 address, or the /64 of an IPv6 one
   * @param readWords reads the words for the invoice, once the request is counted; comment and zap request are stored
   * @throws Refusal if the amount is not possible, the payer is not admitted ({@link InvoiceAdmission}), or the mint
   *   returns no invoice that can be trusted
   */
  async issue(
    recipient: Recipient,
    amountMsat: number,
    payer: { addressGroup: string },
    readWords: () => InvoiceWords,
  ): Promise<Invoice> {
    const { admission, infos, onTimed, monotonicMs } = this.#parts;
    const timer = startTimer(monotonicMs);
    try {
      admission.countRequest(payer.addressGroup);
      const order = { recipient, amountMsat, words: readWords() };
      const mint = await timer.mint(infos.get(recipient.mintUrl));
      if (mint === null) {
        // It never answered: the payer need not wait for a second failure.
        throw mintTrouble();
      }
      refuseWrongAmount(amountMsat, this.#rangeAt(mint));
      const description = describeInvoice(mint, order.words);
      const { pubkey, mintUrl } = recipient;
      const request = { pubkey, mintUrl, addressGroup: payer.addressGroup };
      const invoice = await admission.admit(request, timer.mint, async (admitted) => {
        const created = await timer.mint(this.#createQuote(order, description, admitted.permit));
        return await this.#store(order, created, admitted.addressGroupHash);
      });
      onTimed(timer.end('issued'));
      return invoice;
    } catch (error) {
      onTimed(timer.end(error instanceof Refusal ? error.nature : 'failed'));
      throw error;
    }
  }

  #rangeAt(mint: MintInfo | null): SendableRange {
    const range =
      mint?.mintsBolt11Sat === false ? null : sendableRange(this.#parts.operatorRange, mint);
    if (range === null) {
      throw new Refusal('unavailable', 'The recipient cannot receive payments right now.');
    }
    return range;
  }

  async #createQuote(
    { recipient, amountMsat, words }: Order,
    description: InvoiceDescription,
    permit: MintPermit,
  ): Promise<CreatedQuote> {
    const { pubkey, mintUrl, lockQuotes } = recipient;
    const answer = await this.#parts.mints.createQuote(mintUrl, permit, {
      amountSat: toSat(amountMsat),
      ...(lockQuotes ? { pubkey: lockingKey(pubkey) } : {}),
      ...description,
    });
    if (answer.outcome === 'created') {
      return answer.quote;
    }
    // The mint's own message may repeat a comment, which is meant for the recipient only.
    const logged = words.comment === null ? answer : { ...answer, detail: undefined };
    this.#parts.log.info(
      { event: 'mint_created_no_quote', mintUrl, ...logged },
      'mint created no quote',
    );
    throw answer.outcome === 'rate_limited' ? mintRateLimited(answer.retryAfterMs) : mintTrouble();
  }

  async #store(order: Order, created: CreatedQuote, addressGroup: string): Promise<Invoice> {
    const { quotes, onIssued, clock, log } = this.#parts;
    const { pubkey, mintUrl } = order.recipient;
    const quote = checkedQuote(order, created, { addressGroup, nowMs: clock() });
    const id = quote && (await quotes.insert(quote));
    if (quote === null || id === null) {
      log.warn(
        { event: 'mint_quote_rejected', mintUrl },
        'mint returned a quote that cannot be trusted; no invoice was issued',
      );
      throw mintTrouble();
    }
    const { quoteId, amountSat, createdAtMs, expiresAtMs, paymentHash, zapRequest } = quote;
    onIssued({ id, mintUrl, quoteId, createdAtMs, expiresAtMs });
    const isZap = zapRequest !== null;
    logMilestone(log, 'invoice_made', paymentHash, { pubkey, amountSat, mintUrl, isZap });
    return { request: quote.request, verifyToken: quote.verifyToken };
  }
}

/** Returns the quote to store, or null if the mint's answer does not match the order. */
function checkedQuote(
  { recipient, amountMsat, words: { comment, zapRequest } }: Order,
  created: CreatedQuote,
  { addressGroup, nowMs }: { addressGroup: string; nowMs: number },
): NewQuote | null {
  const invoice = readInvoice(created.request);
  const amountSat = toSat(amountMsat);
  if (
    invoice === null ||
    invoice.amountMsat !== amountMsat ||
    (created.amountSat ?? amountSat) !== amountSat
  ) {
    return null;
  }
  // NUT-20: without the key, anyone who learns the quote's id can mint it; with another key, the money goes to its
  // owner.
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

/** Times a request for an invoice from now on. */
function startTimer(monotonicMs: () => number) {
  const startedAtMs = monotonicMs();
  let mintMs = 0;
  return {
    /** Waits for the mint, and counts the time. */
    mint: async <Answer>(answer: Promise<Answer>): Promise<Answer> => {
      const askedAtMs = monotonicMs();
      try {
        return await answer;
      } finally {
        mintMs += monotonicMs() - askedAtMs;
      }
    },
    end: (outcome: InvoiceTiming['outcome']): InvoiceTiming => ({
      outcome,
      tookMs: monotonicMs() - startedAtMs,
      mintMs,
    }),
  };
}
