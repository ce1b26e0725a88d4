import type { Clock } from '../domain/clock.ts';
import { parseJson } from '../domain/foreign-text.ts';
import type { InvoiceDescription } from '../domain/invoice-description.ts';
import { type MintInfo, parseMintInfo } from '../domain/mint-info.ts';
import type { QuoteObservation } from '../domain/quote.ts';
import type { GuardedFetch, GuardedRequest } from '../net/guarded-fetch.ts';
import {
  type Answered,
  askMint,
  isSuccess,
  type RateLimited,
  UNEXPECTED_ANSWER,
  type Unavailable,
  unavailable,
} from './ask-mint.ts';
import type { MintAnomalies } from './mint-anomalies.ts';
import { isUnknownQuote, mintErrorDetail, refusalDetail } from './mint-error.ts';
import {
  type CreatedQuote,
  isQuoteId,
  parseCreatedQuote,
  parseObservation,
} from './quote-answer.ts';

export type CreateQuoteAnswer =
  | { outcome: 'created'; quote: CreatedQuote }
  /** `detail` is the mint's own word, short and printable. */
  | { outcome: 'refused'; status: number; detail: string }
  | RateLimited
  | Unavailable;

export type ReadQuoteAnswer =
  | { outcome: 'found'; observation: QuoteObservation }
  | { outcome: 'not_found' }
  | RateLimited
  | Unavailable;

export type CheckQuotesAnswer =
  /** A quote of which the mint said nothing usable is not among them. */
  | { outcome: 'found'; observations: QuoteObservation[] }
  /** One bad id fails a whole batch (NUT-29): split it. */
  | { outcome: 'refused'; status: number; detail: string }
  | { outcome: 'unsupported' }
  | RateLimited
  | Unavailable;

export type ReadInfoAnswer =
  | { outcome: 'found'; info: MintInfo }
  /** Something answers there, but no mint. */
  | { outcome: 'invalid' }
  | RateLimited
  | Unavailable;

/** One quote: some 2 kB, with a long invoice and all its fields. */
const MAX_QUOTE_BYTES = 64 * 1024;

/**
 * A batch may have this for each of its quotes, beside what one quote may: 1000 with long invoices are
 * about 2 MB.
 */
const MAX_BYTES_PER_CHECKED_QUOTE = 3 * 1024;

/** What a mint says of itself is some 10 kB, with a long description and message. */
const MAX_INFO_BYTES = 256 * 1024;

/** Plain requests to mints (NUT-04, NUT-06, NUT-23, NUT-29). Mint urls are normalised ones. */
export class MintClient {
  readonly #fetch: Pick<GuardedFetch, 'request'>;
  readonly #anomalies: MintAnomalies;
  readonly #clock: Clock;

  /** @param options.anomalies counts answers for quotes that were not asked about */
  constructor(options: {
    fetch: Pick<GuardedFetch, 'request'>;
    anomalies: MintAnomalies;
    clock: Clock;
  }) {
    this.#fetch = options.fetch;
    this.#anomalies = options.anomalies;
    this.#clock = options.clock;
  }

  /**
   * Asks a mint for a bolt11 quote in sat (NUT-04, NUT-23).
   *
   * @param params.pubkey locks the quote to this key: 33 bytes compressed, hex (NUT-20). The caller
   *   compares it with the one in the answer
   * @param params.description only where the mint takes one, and so is `descriptionHash`: others refuse
   *   the quote
   */
  async createQuote(
    mintUrl: string,
    params: { amountSat: number; pubkey?: string } & InvoiceDescription,
  ): Promise<CreateQuoteAnswer> {
    const { amountSat, pubkey, description, descriptionHash } = params;
    const answer = await this.#ask({
      method: 'POST',
      url: `${mintUrl}/v1/mint/quote/bolt11`,
      body: {
        amount: amountSat,
        unit: 'sat',
        ...(pubkey !== undefined && { pubkey }),
        ...(description !== undefined && { description }),
        ...(descriptionHash !== undefined && { description_hash: descriptionHash }),
      },
      maxBodyBytes: MAX_QUOTE_BYTES,
    });
    if (answer.outcome !== 'answered') {
      return answer;
    }
    if (!isSuccess(answer)) {
      return { outcome: 'refused', status: answer.status, detail: refusalDetail(answer) };
    }
    const quote = parseCreatedQuote(parseJson(answer.text));
    return quote === null ? UNEXPECTED_ANSWER : { outcome: 'created', quote };
  }

  /** Asks for one quote (NUT-23). A mint that answers of another quote has not answered. */
  async readQuote(mintUrl: string, quoteId: string): Promise<ReadQuoteAnswer> {
    if (!isQuoteId(quoteId)) {
      return { outcome: 'not_found' };
    }
    const answer = await this.#ask({
      method: 'GET',
      url: `${mintUrl}/v1/mint/quote/bolt11/${encodeURIComponent(quoteId)}`,
      maxBodyBytes: MAX_QUOTE_BYTES,
    });
    if (answer.outcome !== 'answered') {
      return answer;
    }
    if (!isSuccess(answer)) {
      return isUnknownQuote(mintErrorDetail(answer))
        ? { outcome: 'not_found' }
        : unavailable(answer.status);
    }
    const observation = parseObservation(parseJson(answer.text));
    return observation?.quoteId === quoteId ? { outcome: 'found', observation } : UNEXPECTED_ANSWER;
  }

  /**
   * Asks for many quotes in one request (NUT-29). Duplicates are asked once, answers are matched by
   * id.
   *
   * @param quoteIds at most as many as the mint advertises
   */
  async checkQuotes(mintUrl: string, quoteIds: readonly string[]): Promise<CheckQuotesAnswer> {
    const asked = new Set(quoteIds.filter(isQuoteId));
    if (asked.size === 0) {
      return { outcome: 'found', observations: [] };
    }
    const answer = await this.#ask({
      method: 'POST',
      url: `${mintUrl}/v1/mint/quote/bolt11/check`,
      body: { quotes: [...asked] },
      maxBodyBytes: MAX_QUOTE_BYTES + asked.size * MAX_BYTES_PER_CHECKED_QUOTE,
    });
    if (answer.outcome !== 'answered') {
      return answer;
    }
    if (!isSuccess(answer)) {
      const { status } = answer;
      const detail = mintErrorDetail(answer);
      if (NO_ROUTE_STATUSES.has(status) && !isUnknownQuote(detail)) {
        return { outcome: 'unsupported' };
      }
      return BAD_ID_STATUSES.has(status)
        ? { outcome: 'refused', status, detail: refusalDetail(answer) }
        : unavailable(status);
    }
    const quotes = parseJson(answer.text);
    // Each one is looked at, which takes time: there is to be no more than there is to say.
    return Array.isArray(quotes) && quotes.length <= asked.size
      ? {
          outcome: 'found',
          observations: this.#asked(mintUrl, quotes.map(parseObservation), asked),
        }
      : UNEXPECTED_ANSWER;
  }

  /** Asks what the mint can do (NUT-06). */
  async readInfo(mintUrl: string): Promise<ReadInfoAnswer> {
    const answer = await this.#ask({
      method: 'GET',
      url: `${mintUrl}/v1/info`,
      maxBodyBytes: MAX_INFO_BYTES,
    });
    if (answer.outcome !== 'answered') {
      return answer;
    }
    if (!isSuccess(answer) && answer.status !== NOT_FOUND) {
      return unavailable(answer.status);
    }
    const info = isSuccess(answer) ? parseMintInfo(parseJson(answer.text)) : null;
    return info === null ? { outcome: 'invalid' } : { outcome: 'found', info };
  }

  /** What was said of the quotes that were asked for, the first word on each. */
  #asked(
    mintUrl: string,
    said: readonly (QuoteObservation | null)[],
    asked: ReadonlySet<string>,
  ): QuoteObservation[] {
    const byId = new Map<string, QuoteObservation>();
    let unasked = 0;
    for (const observation of said) {
      if (observation !== null && !asked.has(observation.quoteId)) {
        unasked += 1;
      } else if (observation !== null && !byId.has(observation.quoteId)) {
        byId.set(observation.quoteId, observation);
      }
    }
    if (unasked > 0) {
      this.#anomalies.report(mintUrl, 'unasked', unasked);
    }
    return [...byId.values()];
  }

  #ask(request: GuardedRequest): Promise<Answered | RateLimited | Unavailable> {
    return askMint(this.#fetch, this.#clock, request);
  }
}

const NOT_FOUND = 404;

/** What is said of a route that is not there. */
const NO_ROUTE_STATUSES: ReadonlySet<number> = new Set([NOT_FOUND, 405]);

/**
 * What mints say of a batch with a bad id (NUT-29). Any other status, as of a proxy that turns us
 * away, would be the same for other ids.
 */
const BAD_ID_STATUSES: ReadonlySet<number> = new Set([400, NOT_FOUND, 422]);
