import type { Clock } from '../domain/clock.ts';
import type { GuardedAnswer, GuardedFetch, GuardedRequest } from '../net/guarded-fetch.ts';

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
