import type { Clock } from '../clock.ts';
import type { GuardedFetch, GuardedResponse } from '../net/guarded-fetch.ts';
import { tryParseJson } from '../untrusted-text.ts';
import type { MintPermit, MintRateLimiter, MintRoute } from './mint-rate-limiter.ts';
import type { RequestOutcome } from './route-rate-limiter.ts';

/** A request without a response that its caller can interpret. */
export type FailedResult =
  /** The mint did not process the request. `retryAfterMs` is null if the mint does not say. */
  | { outcome: 'rate_limited'; retryAfterMs: number | null }
  /** The mint may have processed the request, unless `isUnsent` is set. `reason` is one of a few fixed texts. */
  | { outcome: 'unavailable'; reason: string; isUnsent?: true };

const REQUEST_TIMEOUT = 408;
const TOO_MANY_REQUESTS = 429;

/** With a longer pause, payments would go unnoticed until their quotes expire. */
const MAX_RETRY_AFTER_MS = 60 * 60 * 1000;

/** This process itself ended the request, which says nothing about the mint. */
const LOCAL_ABORT_REASONS: ReadonlySet<string | undefined> = new Set([
  'too many requests in flight',
  'closed',
]);

export interface MintRequest<Result> {
  mintUrl: string;
  path: string;
  /** Sent as JSON with POST; without a body, the request is a GET. */
  body?: object;
  maxResponseBytes: number;
  route: MintRoute;
  /** How long to wait for a permit; 0 by default. */
  maxWaitMs?: number | undefined;
  /** A permit that the caller has already acquired. */
  permit?: MintPermit | undefined;
  /** Parses the body of a success; null if it is unexpected. */
  parse: (body: unknown) => Result | null;
  /** Interprets a status from 400 to 499, except 408 and 429; null for `unavailable`. */
  parseRejection?: (response: Extract<GuardedResponse, { outcome: 'responded' }>) => Result | null;
}

export interface MintRequestDeps {
  fetch: Pick<GuardedFetch, 'request'>;
  clock: Clock;
  /** Absent for a command that sends each mint a single request. */
  limiter?: MintRateLimiter;
}

/**
 * Sends one request to a mint when the rate limiter permits it, and handles the responses that mean the same on
 * every route. If the limiter does not permit it in time, nothing is sent.
 */
export async function sendMintRequest<Result extends RequestOutcome>(
  deps: MintRequestDeps,
  request: MintRequest<Result>,
): Promise<Result | FailedResult> {
  const { mintUrl, route, maxWaitMs = 0 } = request;
  let { permit } = request;
  if (permit === undefined && deps.limiter !== undefined) {
    const acquired = await deps.limiter.acquire(mintUrl, route, { maxWaitMs });
    if (acquired.outcome === 'rate_limited') {
      return acquired;
    }
    permit = acquired.permit;
  }
  const result = await send(deps, request).catch((error: unknown) => {
    permit?.cancel();
    throw error;
  });
  const { reason }: RequestOutcome = result;
  if (permit === undefined || !LOCAL_ABORT_REASONS.has(reason)) {
    permit?.complete(result);
    return result;
  }
  permit.cancel();
  // The mint may have executed a swap whose response was aborted.
  const mayHaveExecuted = route === 'swap' && !('isUnsent' in result);
  return mayHaveExecuted ? result : { outcome: 'rate_limited', retryAfterMs: 0 };
}

async function send<Result>(
  { fetch, clock }: MintRequestDeps,
  { mintUrl, path, body, maxResponseBytes, parse, parseRejection }: MintRequest<Result>,
): Promise<Result | FailedResult> {
  const response = await fetch.request({
    method: body === undefined ? 'GET' : 'POST',
    url: `${mintUrl}${path}`,
    body,
    maxBodyBytes: maxResponseBytes,
  });
  if (response.outcome === 'unreachable') {
    return { ...response, outcome: 'unavailable' };
  }
  const { status, headers, text } = response;
  if (status === TOO_MANY_REQUESTS) {
    const retryAfterMs = parseRetryAfterMs(headers.get('retry-after'), clock());
    return { outcome: 'rate_limited', retryAfterMs };
  }
  if (status >= 200 && status < 300) {
    return parse(tryParseJson(text)) ?? { outcome: 'unavailable', reason: 'unexpected response' };
  }
  const isRejection = status >= 400 && status < 500 && status !== REQUEST_TIMEOUT;
  const rejection = isRejection ? parseRejection?.(response) : null;
  return rejection ?? { outcome: 'unavailable', reason: `status ${status}` };
}

/** Returns why a request has no result, as one of a few fixed texts. */
export function describeFailure(result: FailedResult): string {
  return result.outcome === 'rate_limited' ? 'rate limited' : result.reason;
}

/**
 * Parses a `Retry-After` header: seconds or an HTTP date (RFC 9110 section 10.2.3).
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
