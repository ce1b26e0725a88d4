import type { Clock } from '../domain/clock.ts';
import { parseJson } from '../domain/foreign-text.ts';
import type { InvoiceDescription } from '../domain/invoice-description.ts';
import { type MintInfo, parseMintInfo } from '../domain/mint-info.ts';
import type { QuoteObservation } from '../domain/quote.ts';
import type { GuardedAnswer, GuardedFetch, GuardedRequest } from '../net/guarded-fetch.ts';
import { isUnknownQuote, mintErrorDetail, refusalDetail } from './mint-error.ts';
import {
  type CreatedQuote,
  isQuoteId,
  parseCreatedQuote,
  parseObservation,
} from './quote-answer.ts';

/** The mint rejected the request. `detail` is its own message, short and printable. */
interface Refused {
  outcome: 'refused';
  status: number;
  detail: string;
}

export type CreateQuoteAnswer =
  | { outcome: 'created'; quote: CreatedQuote }
  | Refused
  | RateLimited
  | Unavailable;

export type ReadQuoteAnswer =
  | { outcome: 'found'; observation: QuoteObservation }
  | { outcome: 'not_found' }
  | RateLimited
  | Unavailable;

export type CheckQuotesAnswer =
  /** Quotes for which the mint sent nothing usable are left out. */
  | { outcome: 'found'; observations: QuoteObservation[] }
  /** One bad id fails the whole batch (NUT-29): split it. */
  | Refused
  | { outcome: 'unsupported' }
  | RateLimited
  | Unavailable;

export type ReadInfoAnswer =
  | { outcome: 'found'; info: MintInfo }
  /** The server answers, but not as a mint. */
  | { outcome: 'invalid' }
  | RateLimited
  | Unavailable;

/** A quote with a long invoice and all its fields is about 2 kB. */
const MAX_QUOTE_BYTES = 64 * 1024;

/** A mint may answer twice for an id; more answers are nonsense, which takes time to parse. */
const MAX_ANSWERS_PER_ID = 2;

/** For each quote of a batch, on top of {@link MAX_QUOTE_BYTES}: 1000 with long invoices are about 2 MB. */
const MAX_BYTES_PER_CHECKED_QUOTE = 3 * 1024;

/** The info of a mint with a long description and message is about 10 kB. */
const MAX_INFO_BYTES = 256 * 1024;

const NOT_FOUND = 404;

const NO_ROUTE_STATUSES: ReadonlySet<number> = new Set([NOT_FOUND, 405]);

/** For a batch with a bad id (NUT-29). Any other status, such as a proxy's, would be the same for other ids. */
const BAD_ID_STATUSES: ReadonlySet<number> = new Set([400, NOT_FOUND, 422]);

/** Plain requests to mints (NUT-04, NUT-06, NUT-23, NUT-29). Mint URLs are normalised. */
export class MintClient {
  readonly #fetch: Pick<GuardedFetch, 'request'>;
  readonly #clock: Clock;

  constructor({ fetch, clock }: { fetch: Pick<GuardedFetch, 'request'>; clock: Clock }) {
    this.#fetch = fetch;
    this.#clock = clock;
  }

  /**
   * Creates a bolt11 quote in sat (NUT-04, NUT-23).
   *
   * @param params.pubkey locks the quote to this key: 33 bytes compressed, hex (NUT-20). The caller
   *   compares it with the one in the answer
   * @param params.description only for mints that accept one, like `descriptionHash`: others reject the quote
   */
  async createQuote(
    mintUrl: string,
    params: { amountSat: number; pubkey?: string } & InvoiceDescription,
  ): Promise<CreateQuoteAnswer> {
    const { amountSat, pubkey, description, descriptionHash: description_hash } = params;
    // JSON leaves out what is undefined.
    const body = { amount: amountSat, unit: 'sat', pubkey, description, description_hash };
    const url = `${mintUrl}/v1/mint/quote/bolt11`;
    const request = { method: 'POST', url, body, maxBodyBytes: MAX_QUOTE_BYTES } as const;
    return await this.#ask(request, (answer) => {
      if (!isSuccess(answer)) {
        return refused(answer);
      }
      const quote = parseCreatedQuote(parseJson(answer.text));
      return quote === null ? UNEXPECTED_ANSWER : { outcome: 'created', quote };
    });
  }

  /** Reads one quote (NUT-23). */
  async readQuote(mintUrl: string, quoteId: string): Promise<ReadQuoteAnswer> {
    if (!isQuoteId(quoteId)) {
      return { outcome: 'not_found' };
    }
    const url = `${mintUrl}/v1/mint/quote/bolt11/${encodeURIComponent(quoteId)}`;
    const request = { method: 'GET', url, maxBodyBytes: MAX_QUOTE_BYTES } as const;
    return await this.#ask(request, (answer) => {
      if (!isSuccess(answer)) {
        return isUnknownQuote(mintErrorDetail(answer))
          ? { outcome: 'not_found' }
          : unavailable(answer.status);
      }
      const observation = parseObservation(parseJson(answer.text));
      return observation?.quoteId === quoteId
        ? { outcome: 'found', observation }
        : UNEXPECTED_ANSWER;
    });
  }

  /**
   * Reads many quotes with one request (NUT-29). Duplicate ids are sent once; answers are matched by id.
   *
   * @param quoteIds at most as many as the mint advertises
   */
  async checkQuotes(mintUrl: string, quoteIds: readonly string[]): Promise<CheckQuotesAnswer> {
    const ids = new Set(quoteIds.filter(isQuoteId));
    if (ids.size === 0) {
      return { outcome: 'found', observations: [] };
    }
    const url = `${mintUrl}/v1/mint/quote/bolt11/check`;
    const maxBodyBytes = MAX_QUOTE_BYTES + ids.size * MAX_BYTES_PER_CHECKED_QUOTE;
    const request = { method: 'POST', url, body: { quotes: [...ids] }, maxBodyBytes } as const;
    return await this.#ask(request, (answer) => {
      const { status } = answer;
      if (NO_ROUTE_STATUSES.has(status) && !isUnknownQuote(mintErrorDetail(answer))) {
        return { outcome: 'unsupported' };
      }
      if (!isSuccess(answer)) {
        return BAD_ID_STATUSES.has(status) ? refused(answer) : unavailable(status);
      }
      const quotes = parseJson(answer.text);
      if (!Array.isArray(quotes) || quotes.length > MAX_ANSWERS_PER_ID * ids.size) {
        return UNEXPECTED_ANSWER;
      }
      const observations = quotes
        .map(parseObservation)
        .filter((observation) => observation !== null)
        .filter(({ quoteId }) => ids.has(quoteId));
      return { outcome: 'found', observations };
    });
  }

  /** Reads what the mint offers (NUT-06). */
  async readInfo(mintUrl: string): Promise<ReadInfoAnswer> {
    const url = `${mintUrl}/v1/info`;
    const request = { method: 'GET', url, maxBodyBytes: MAX_INFO_BYTES } as const;
    return await this.#ask(request, (answer) => {
      if (!isSuccess(answer) && answer.status !== NOT_FOUND) {
        return unavailable(answer.status);
      }
      const info = isSuccess(answer) ? parseMintInfo(parseJson(answer.text)) : null;
      return info === null ? { outcome: 'invalid' } : { outcome: 'found', info };
    });
  }

  async #ask<Result>(
    request: GuardedRequest,
    read: (answer: Answered) => Result,
  ): Promise<Result | RateLimited | Unavailable> {
    const answer = await askMint(this.#fetch, this.#clock, request);
    return answer.outcome === 'answered' ? read(answer) : answer;
  }
}

function refused(answer: Answered): Refused {
  return { outcome: 'refused', status: answer.status, detail: refusalDetail(answer) };
}

/** The mint did not carry out the request: mints count a request before they read it. */
export interface RateLimited {
  outcome: 'rate_limited';
  /** Null if the mint does not say. */
  retryAfterMs: number | null;
}

/** The mint gave no usable answer. It may have carried out the request nevertheless. */
export interface Unavailable {
  outcome: 'unavailable';
  /** A few stable words, without a URL, an id or anything that the mint sent. */
  reason: string;
  /** The mint certainly received nothing of the request; absent if it may have. */
  isUnsent?: true;
}

/** The mint accepted or rejected this request. */
export type Answered = Extract<GuardedAnswer, { outcome: 'answered' }>;

export const UNEXPECTED_ANSWER: Unavailable = {
  outcome: 'unavailable',
  reason: 'unexpected answer',
};

const REQUEST_TIMEOUT = 408;
const TOO_MANY_REQUESTS = 429;

/** A mint may not make us wait for longer: its payments would go unnoticed until they expire. */
const MAX_RETRY_AFTER_MS = 60 * 60 * 1000;

/** Sends one request to a mint, and handles the answers that mean the same on every route. */
export async function askMint(
  fetch: Pick<GuardedFetch, 'request'>,
  clock: Clock,
  request: GuardedRequest,
): Promise<Answered | RateLimited | Unavailable> {
  const answer = await fetch.request(request);
  if (answer.outcome === 'unreachable') {
    return { ...answer, outcome: 'unavailable' };
  }
  const { status, headers } = answer;
  if (status === TOO_MANY_REQUESTS) {
    const retryAfterMs = parseRetryAfterMs(headers.get('retry-after'), clock());
    return { outcome: 'rate_limited', retryAfterMs };
  }
  const isRejection = status >= 400 && status < 500 && status !== REQUEST_TIMEOUT;
  return isSuccess(answer) || isRejection ? answer : unavailable(status);
}

/** The answer of a mint, or of a proxy in front of it, that is in trouble. */
export function unavailable(status: number): Unavailable {
  return { outcome: 'unavailable', reason: `status ${status}` };
}

export function isSuccess({ status }: Answered): boolean {
  return status >= 200 && status < 300;
}

/** Returns why a mint gave no answer, in a few stable words. */
export function reasonOf(answer: RateLimited | Unavailable): string {
  return answer.outcome === 'rate_limited' ? 'rate limited' : answer.reason;
}

/**
 * Reads a `Retry-After` header: seconds or an HTTP date (RFC 9110, 10.2.3).
 *
 * @returns milliseconds from now, at most an hour; null if the header is absent or malformed
 */
export function parseRetryAfterMs(header: string | undefined, nowMs: number): number | null {
  const text = header?.trim() ?? '';
  const delayMs = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text) - nowMs;
  return Number.isNaN(delayMs)
    ? null
    : Math.min(Math.max(Math.ceil(delayMs), 0), MAX_RETRY_AFTER_MS);
}
