import { z } from 'zod';
import type { Clock } from '../clock.ts';
import type { GuardedFetch } from '../net/guarded-fetch.ts';
import type { HttpResponse } from '../net/http-client.ts';
import { parseRetryAfterMs } from '../net/retry-after.ts';
import { toDisplayText } from '../untrusted-text.ts';
import { type MintInfo, parseMintInfo } from './mint-info.ts';
import type { MintRateLimiter, MintRoute, RequestWait } from './mint-rate-limiter.ts';
import {
  type CreatedQuote,
  parseCreatedQuote,
  parseQuoteObservation,
  type QuoteObservation,
} from './quote-responses.ts';
import type { FailedResult, RequestResult } from './route-rate-limiter.ts';

interface RejectedResult {
  outcome: 'rejected';
  status: number;
  detail: string;
}

/** Has at most one of the fields, and none if the mint supports no description. */
export interface InvoiceDescription {
  description?: string;
  /** SHA-256 in hex. */
  descriptionHash?: string;
}

export type CreateQuoteResult =
  | { outcome: 'created'; quote: CreatedQuote }
  | RejectedResult
  | FailedResult;

export type ReadQuoteResult =
  | { outcome: 'found'; observation: QuoteObservation }
  | { outcome: 'not_found' }
  | FailedResult;

export type CheckQuotesResult =
  /** Quotes whose entry is missing or malformed are left out. */
  | { outcome: 'found'; observations: QuoteObservation[] }
  /** If the mint does not know one of the ids, it rejects the whole batch (NUT-29). The caller should split it. */
  | RejectedResult
  | { outcome: 'unsupported' }
  | FailedResult;

export type ReadInfoResult =
  | { outcome: 'found'; info: MintInfo }
  /** The server responds, but not as a mint. */
  | { outcome: 'invalid' }
  | FailedResult;

/** A quote with a long invoice and all its fields is about 2 kB. */
const MAX_QUOTE_RESPONSE_BYTES = 64 * 1024;

/** Sends requests about quotes and about a mint's info (NUT-04, NUT-06, NUT-23, NUT-29). Mint URLs are normalised. */
export class MintClient {
  readonly #context: MintRequestContext;

  constructor(context: MintRequestContext) {
    this.#context = context;
  }

  /** With a compressed `pubkey`, requests a quote that is locked to it (NUT-20). The caller must check the lock. */
  createQuote(
    mintUrl: string,
    params: { amountSat: number; pubkey?: string } & InvoiceDescription,
    wait: RequestWait = {},
  ): Promise<CreateQuoteResult> {
    const { amountSat, pubkey, description, descriptionHash: description_hash } = params;
    return sendMintRequest<CreateQuoteResult>(this.#context, {
      mintUrl,
      route: 'create',
      path: '/v1/mint/quote/bolt11',
      body: { amount: amountSat, unit: 'sat', pubkey, description, description_hash },
      maxResponseBytes: MAX_QUOTE_RESPONSE_BYTES,
      ...wait,
      parse: (body) => {
        const quote = parseCreatedQuote(body);
        return quote && { outcome: 'created', quote };
      },
      parseRejection: toRejectedResult,
    });
  }

  readQuote(mintUrl: string, quoteId: string): Promise<ReadQuoteResult> {
    return sendMintRequest<ReadQuoteResult>(this.#context, {
      mintUrl,
      route: 'read',
      path: `/v1/mint/quote/bolt11/${encodeURIComponent(quoteId)}`,
      maxResponseBytes: MAX_QUOTE_RESPONSE_BYTES,
      parse: (body) => {
        const observation = parseQuoteObservation(body);
        return observation?.quoteId === quoteId ? { outcome: 'found', observation } : null;
      },
      parseRejection: (response) =>
        isUnknownQuoteError(response) ? { outcome: 'not_found' } : null,
    });
  }

  /** Reads the states of several quotes with one request (NUT-29): at most as many as the mint advertises. */
  checkQuotes(mintUrl: string, quoteIds: readonly string[]): Promise<CheckQuotesResult> {
    const ids = new Set(quoteIds);
    return sendMintRequest<CheckQuotesResult>(this.#context, {
      mintUrl,
      route: 'check',
      path: '/v1/mint/quote/bolt11/check',
      body: { quotes: quoteIds },
      maxResponseBytes: MAX_QUOTE_RESPONSE_BYTES + ids.size * 2 * 1024,
      parse: (quotes) => {
        // A mint may repeat quotes. Longer lists are not parsed, because it takes time.
        if (!Array.isArray(quotes) || quotes.length > 2 * ids.size) {
          return null;
        }
        const observations = quotes
          .map(parseQuoteObservation)
          .filter((observation) => observation !== null)
          .filter(({ quoteId }) => ids.has(quoteId));
        return { outcome: 'found', observations };
      },
      parseRejection: (response) => {
        const { status } = response;
        if ([404, 405].includes(status) && !isUnknownQuoteError(response)) {
          return { outcome: 'unsupported' };
        }
        // A mint sends these statuses for an unknown id (NUT-29). Others have causes that do not depend on the ids.
        return [400, 404, 422].includes(status) ? toRejectedResult(response) : null;
      },
    });
  }

  readInfo(mintUrl: string): Promise<ReadInfoResult> {
    return sendMintRequest<ReadInfoResult>(this.#context, {
      mintUrl,
      route: 'info',
      path: '/v1/info',
      // With an embedded icon, it reaches 1 MB. Its chunks take up to a quarter more.
      maxResponseBytes: 1.25 * 1024 * 1024,
      parse: (body) => {
        const info = parseMintInfo(body);
        return info === null ? { outcome: 'invalid' } : { outcome: 'found', info };
      },
      parseRejection: ({ status }) => (status === 404 ? { outcome: 'invalid' } : null),
    });
  }
}

function toRejectedResult(response: RespondedResponse): RejectedResult {
  const detail = parseRedactedErrorDetail(response);
  return { outcome: 'rejected', status: response.status, detail };
}

type RespondedResponse = Extract<HttpResponse, { outcome: 'responded' }>;

export interface MintRequest<Result> extends RequestWait {
  mintUrl: string;
  path: string;
  body?: object;
  maxResponseBytes: number;
  route: MintRoute;
  /** Parses the body of a response with status 2xx; null if the body is unexpected. */
  parse: (body: unknown) => Result | null;
  /** Interprets a response with status 4xx, except 408 and 429; null if the result is `unavailable`. */
  parseRejection?: (response: RespondedResponse) => Result | null;
}

export interface MintRequestContext {
  fetch: Pick<GuardedFetch, 'request'>;
  clock: Clock;
  /** Absent in a command that sends each mint a single request. */
  limiter?: MintRateLimiter;
}

/** Sends a request if the rate limiter allows it within `maxWaitMs`, and reports the result to it. */
export async function sendMintRequest<Result extends RequestResult>(
  context: MintRequestContext,
  request: MintRequest<Result>,
): Promise<Result | FailedResult> {
  const { mintUrl, route } = request;
  if (context.limiter === undefined) {
    return await send(context, request);
  }
  const acquired = await context.limiter.acquire(mintUrl, route, request);
  if (acquired.outcome === 'rate_limited') {
    return acquired;
  }
  using slot = acquired.slot;
  const result = await send(context, request);
  // If this process aborted the request, the result says nothing about the mint.
  const isAborted =
    result.outcome === 'unavailable' &&
    ['too many requests in flight', 'closed'].includes(result.reason);
  if (!isAborted) {
    slot.finish(result);
    return result;
  }
  // An aborted request counts as one that got no slot. The exception is a swap, which the mint may have executed.
  const mayBeSwapped = route === 'swap' && !('isUnsent' in result);
  return mayBeSwapped ? result : { outcome: 'rate_limited', retryAfterMs: 0 };
}

/** Interprets the responses that mean the same on every route. */
async function send<Result>(
  { fetch, clock }: MintRequestContext,
  { mintUrl, path, body, maxResponseBytes, parse, parseRejection }: MintRequest<Result>,
): Promise<Result | FailedResult> {
  const response = await fetch.request({
    url: `${mintUrl}${path}`,
    body,
    maxBodyBytes: maxResponseBytes,
  });
  if (response.outcome === 'unreachable') {
    return { ...response, outcome: 'unavailable' };
  }
  const { status, headers, json } = response;
  if (status === 429) {
    // During a pause of more than an hour, quotes would expire before their payments are noticed.
    const retryAfterMs = parseRetryAfterMs(headers.get('retry-after'), clock(), 60 * 60_000);
    return { outcome: 'rate_limited', retryAfterMs };
  }
  if (status >= 200 && status < 300) {
    return parse(json) ?? { outcome: 'unavailable', reason: 'unexpected response' };
  }
  const isRejection = status >= 400 && status < 500 && status !== 408;
  const rejection = isRejection ? parseRejection?.(response) : null;
  return rejection ?? { outcome: 'unavailable', reason: 'unexpected status', status };
}

export function describeFailure(result: FailedResult): string {
  if (result.outcome === 'rate_limited') {
    return 'rate limited';
  }
  return result.status === undefined ? result.reason : `status ${result.status}`;
}

const errorDetailSchema = z.object({
  detail: z.union([
    z.string(),
    // FastAPI sends a message for each invalid field.
    z
      .array(z.unknown())
      .max(100)
      .pipe(z.array(z.object({ msg: z.string() }))),
  ]),
});

export type MintErrorResponse = Pick<RespondedResponse, 'headers' | 'json' | 'text'>;

/** Returns the error as a short, printable line; empty if the body is neither JSON nor plain text, which cdk sends. */
export function parseErrorDetail({ headers, json, text }: MintErrorResponse): string {
  const detail = errorDetailSchema.safeParse(json).data?.detail;
  if (detail === undefined) {
    return headers.get('content-type')?.startsWith('text/plain') ? toDisplayText(text) : '';
  }
  const message = typeof detail === 'string' ? detail : detail.map(({ msg }) => msg).join('; ');
  return toDisplayText(message);
}

/** For the log. Replaces words of 20 or more characters, which may be ids, keys or secrets. */
export function parseRedactedErrorDetail(response: MintErrorResponse): string {
  return parseErrorDetail(response).replace(/[\w+/=-]{20,}/g, '…');
}

/** Looks at the text, because the codes that mints send for an unknown quote have many meanings (0, 50000). */
function isUnknownQuoteError(response: MintErrorResponse): boolean {
  return /quote.*(not found|unknown|does not exist)|unknown quote/i.test(
    parseErrorDetail(response),
  );
}
