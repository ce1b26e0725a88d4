import type { RateLimited } from './ask-mint.ts';
import type { MintPermit, MintRateLimiter, MintRoute } from './mint-rate-limiter.ts';
import type { RequestOutcome } from './route-limit.ts';

/** Of these, a request that was cut off may have been carried out. */
const MOVING_MONEY: ReadonlySet<MintRoute> = new Set(['swap', 'melt']);

/** An answer of a mint client, as far as the limiter is concerned. */
export type LimitedAnswer = RequestOutcome & { reason?: string; isUnsent?: true };

/**
 * Sends one request as soon as the limiter permits.
 *
 * @param options.patienceMs how long to wait for the permit
 * @returns the mint's answer, or `rate_limited` if the request was not sent
 */
export async function limitedRequest<Answer extends LimitedAnswer>(
  limiter: MintRateLimiter,
  mintUrl: string,
  route: MintRoute,
  ask: () => Promise<Answer>,
  options: { patienceMs?: number } = {},
): Promise<Answer | RateLimited> {
  const acquired = await limiter.acquire(mintUrl, route, options);
  return acquired.outcome === 'granted'
    ? await permittedRequest(acquired.permit, route, ask)
    : acquired;
}

/** Sends one request with a permit, and reports what came of it. */
export async function permittedRequest<Answer extends LimitedAnswer>(
  permit: MintPermit,
  route: MintRoute,
  ask: () => Promise<Answer>,
): Promise<Answer | RateLimited> {
  let answer: Answer;
  try {
    answer = await ask();
  } catch (error) {
    permit.withdraw();
    throw error;
  }
  if (!isOwnDoing(answer)) {
    permit.settle(answer);
    return answer;
  }
  permit.withdraw();
  const mayBeDone = MOVING_MONEY.has(route) && answer.isUnsent !== true;
  return mayBeDone ? answer : { outcome: 'rate_limited', retryAfterMs: 0 };
}

/** Whether our own bounds or shutdown stopped the request, which says nothing about the mint. */
function isOwnDoing({ reason }: LimitedAnswer): boolean {
  return reason === 'too many requests in flight' || reason === 'closed';
}
