import type { Clock } from '../clock.ts';
import type { GuardedAnswer, GuardedFetch } from '../net/guarded-fetch.ts';
import type { QuoteObservation } from './quote-answer.ts';
import { parseJson } from '../untrusted-text.ts';
import type { InvoiceDescription } from './invoice-description.ts';
import { isUnknownQuote, mintErrorDetail, refusalDetail } from './mint-error.ts';
import { type MintInfo, parseMintInfo } from './mint-info.ts';
import type { MintPermit, MintRateLimiter, MintRoute } from './mint-rate-limiter.ts';
import {
  type CreatedQuote,
  isQuoteId,
  parseCreatedQuote,
  parseObservation,
} from './quote-answer.ts';
import type { RequestOutcome } from './route-limit.ts';

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

export interface MintClientParts {
  fetch: Pick<GuardedFetch, 'request'>;
  clock: Clock;
  /** Permits each request; absent for a command that asks a mint once. */
  limiter?: MintRateLimiter;
}

/**
 * Plain requests to mints (NUT-04, NUT-06, NUT-23, NUT-29). Mint URLs are normalised. If the rate limiter
 * permits none, nothing is sent, and the answer is `rate_limited`.
 */
export class MintClient {
  readonly #parts: MintClientParts;

  constructor(parts: MintClientParts) {
    this.#parts = parts;
  }

  /**
   * Creates a bolt11 quote in sat (NUT-04, NUT-23).
   *
   * @param params.pubkey locks the quote to this key: 33 bytes compressed, hex (NUT-20). The caller
   *   compares it with the one in the answer
   * @param params.description only for mints that accept one, like `descriptionHash`: others reject the quote
   * @param permit one that the caller acquired on the route `create`
   */
  async createQuote(
    mintUrl: string,
    params: { amountSat: number; pubkey?: string } & InvoiceDescription,
    permit?: MintPermit,
  ): Promise<CreateQuoteAnswer> {
    const { amountSat, pubkey, description, descriptionHash: description_hash } = params;
    // JSON leaves out what is undefined.
    const body = { amount: amountSat, unit: 'sat', pubkey, description, description_hash };
    const path = '/v1/mint/quote/bolt11';
    const maxBytes = MAX_QUOTE_BYTES;
    const request: MintRequest = { mintUrl, route: 'create', path, body, maxBytes, permit };
    return await askMint<CreateQuoteAnswer>(this.#parts, request, (answer) => {
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
    const path = `/v1/mint/quote/bolt11/${encodeURIComponent(quoteId)}`;
    const request: MintRequest = { mintUrl, route: 'read', path, maxBytes: MAX_QUOTE_BYTES };
    return await askMint<ReadQuoteAnswer>(this.#parts, request, (answer) => {
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
    const path = '/v1/mint/quote/bolt11/check';
    const body = { quotes: [...ids] };
    const maxBytes = MAX_QUOTE_BYTES + ids.size * MAX_BYTES_PER_CHECKED_QUOTE;
    const request: MintRequest = { mintUrl, route: 'check', path, body, maxBytes };
    return await askMint<CheckQuotesAnswer>(this.#parts, request, (answer) => {
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
    const path = '/v1/info';
    const request: MintRequest = { mintUrl, route: 'info', path, maxBytes: MAX_INFO_BYTES };
    return await askMint<ReadInfoAnswer>(this.#parts, request, (answer) => {
      if (!isSuccess(answer) && answer.status !== NOT_FOUND) {
        return unavailable(answer.status);
      }
      const info = isSuccess(answer) ? parseMintInfo(parseJson(answer.text)) : null;
      return info === null ? { outcome: 'invalid' } : { outcome: 'found', info };
    });
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

export interface MintRequest {
  mintUrl: string;
  path: string;
  /** Sent as JSON with a POST; without one, the request is a GET. */
  body?: object;
  /** Of the answer. */
  maxBytes: number;
  /** Whose limit counts the request. */
  route: MintRoute;
  /** How long to wait for a permit; 0 by default. */
  patienceMs?: number | undefined;
  /** A permit that the caller acquired. */
  permit?: MintPermit | undefined;
}

/**
 * Sends one request to a mint as soon as the limiter permits, and handles the answers that mean the same on
 * every route.
 */
export async function askMint<Result extends RequestOutcome & { reason?: string }>(
  { fetch, clock, limiter }: MintClientParts,
  { mintUrl, path, route, body, maxBytes, patienceMs = 0, permit }: MintRequest,
  read: (answer: Answered) => Result,
): Promise<Result | RateLimited | Unavailable> {
  const send = async () => {
    const answer = await fetch.request({
      method: body === undefined ? 'GET' : 'POST',
      url: `${mintUrl}${path}`,
      body,
      maxBodyBytes: maxBytes,
    });
    return answer.outcome === 'answered'
      ? readAnswer(answer, clock(), read)
      : ({ ...answer, outcome: 'unavailable' } as const);
  };
  if (permit !== undefined) {
    return await sendPermitted(permit, route, send);
  }
  const acquired = await limiter?.acquire(mintUrl, route, { patienceMs });
  switch (acquired?.outcome) {
    case undefined:
      return await send();
    case 'granted':
      return await sendPermitted(acquired.permit, route, send);
    case 'rate_limited':
      return acquired;
  }
}

function readAnswer<Result>(
  answer: Answered,
  nowMs: number,
  read: (answer: Answered) => Result,
): Result | RateLimited | Unavailable {
  const { status, headers } = answer;
  if (status === TOO_MANY_REQUESTS) {
    const retryAfterMs = parseRetryAfterMs(headers.get('retry-after'), nowMs);
    return { outcome: 'rate_limited', retryAfterMs };
  }
  const isRejection = status >= 400 && status < 500 && status !== REQUEST_TIMEOUT;
  return isSuccess(answer) || isRejection ? read(answer) : unavailable(status);
}

/** Our own bounds or our shutdown stopped the request, which says nothing about the mint. */
const OWN_REASONS: ReadonlySet<string | undefined> = new Set([
  'too many requests in flight',
  'closed',
]);

/** Sends one request with a permit, and reports its outcome to the limiter. */
async function sendPermitted<Answer extends RequestOutcome & { reason?: string; isUnsent?: true }>(
  permit: MintPermit,
  route: MintRoute,
  send: () => Promise<Answer>,
): Promise<Answer | RateLimited> {
  const answer = await send().catch((error: unknown) => {
    permit.withdraw();
    throw error;
  });
  if (!OWN_REASONS.has(answer.reason)) {
    permit.settle(answer);
    return answer;
  }
  permit.withdraw();
  // A swap that was cut off may have been carried out.
  const mayBeDone = route === 'swap' && answer.isUnsent !== true;
  return mayBeDone ? answer : { outcome: 'rate_limited', retryAfterMs: 0 };
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
