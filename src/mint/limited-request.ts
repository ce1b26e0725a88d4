import type { RateLimited } from './ask-mint.ts';
import type { MintPermit, MintRateLimiter, MintRoute } from './mint-rate-limiter.ts';
import type { RequestOutcome } from './route-limit.ts';

/** Our own bounds or our shutdown stopped the request, which says nothing about the mint. */
const OWN_REASONS: ReadonlySet<string | undefined> = new Set([
  'too many requests in flight',
  'closed',
]);

/** An answer of a mint client, as far as the limiter is concerned. */
type LimitedAnswer = RequestOutcome & { reason?: string; isUnsent?: true };

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

/** Sends one request with a permit, and reports its outcome to the limiter. */
export async function permittedRequest<Answer extends LimitedAnswer>(
  permit: MintPermit,
  route: MintRoute,
  ask: () => Promise<Answer>,
): Promise<Answer | RateLimited> {
  const answer = await ask().catch((error: unknown) => {
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
