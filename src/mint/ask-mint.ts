import type { Clock } from '../domain/clock.ts';
import type { GuardedAnswer, GuardedFetch, GuardedRequest } from '../net/guarded-fetch.ts';
import { parseRetryAfterMs } from './retry-after.ts';

/**
 * The mint wants to be left alone; null where it does not say for how long. What was asked for was
 * not done: mints count a request before they look at it.
 */
export interface RateLimited {
  outcome: 'rate_limited';
  retryAfterMs: number | null;
}

/**
 * The mint gave no usable answer: unreachable, in trouble, or not making sense. It may have done what
 * was asked for all the same.
 */
export interface Unavailable {
  outcome: 'unavailable';
  /** A few stable words, without a url, an id or anything that the mint said. */
  reason: string;
  /** The mint certainly heard nothing of it; absent where it may have. */
  isUnsent?: true;
}

/** The mint said yes, or no to this request; anything else concerns the mint. */
export type Answered = Extract<GuardedAnswer, { outcome: 'answered' }>;

export const UNEXPECTED_ANSWER: Unavailable = {
  outcome: 'unavailable',
  reason: 'unexpected answer',
};

const REQUEST_TIMEOUT = 408;
const TOO_MANY_REQUESTS = 429;

/** Sends one request to a mint; what means the same on every route is sorted out here. */
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
  const isOfTheRequest = status >= 400 && status < 500 && status !== REQUEST_TIMEOUT;
  return isSuccess(answer) || isOfTheRequest ? answer : unavailable(status);
}

/** The mint, or what stands before it, is in trouble. */
export function unavailable(status: number): Unavailable {
  return { outcome: 'unavailable', reason: `status ${status}` };
}

export function isSuccess({ status }: Answered): boolean {
  return status >= 200 && status < 300;
}

/** Why a mint gave no answer, in a few stable words. */
export function reasonOf(answer: RateLimited | Unavailable): string {
  return answer.outcome === 'rate_limited' ? 'rate limited' : answer.reason;
}
