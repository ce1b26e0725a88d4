import { RATE_LIMITER_TIMING } from './limits.ts';
import type { CreateQuoteResult, MintClient } from './mint-client.ts';

type CreateQuoteParams = Parameters<MintClient['createQuote']>[1];

/** Creates a quote for a payer who is waiting. Retries once, because an unpaid quote costs the mint nothing. */
export async function createQuoteForPayer(
  client: Pick<MintClient, 'createQuote'>,
  mintUrl: string,
  params: CreateQuoteParams,
  addressGroup: string,
  monotonicMs: () => number,
): Promise<CreateQuoteResult> {
  const { payerMaxWaitMs } = RATE_LIMITER_TIMING;
  const deadlineMs = monotonicMs() + payerMaxWaitMs;
  const wait = { addressGroup, maxWaitMs: payerMaxWaitMs };
  const firstResult = await client.createQuote(mintUrl, params, wait);
  const retryParams = chooseRetryParams(firstResult, params);
  const maxWaitMs = deadlineMs - monotonicMs();
  if (retryParams === null || maxWaitMs <= 0) {
    return firstResult;
  }
  const secondResult = await client.createQuote(mintUrl, retryParams, { addressGroup, maxWaitMs });
  // The first result says more about the cause than a rate limit.
  return secondResult.outcome === 'rate_limited' && firstResult.outcome !== 'rate_limited'
    ? firstResult
    : secondResult;
}

/** Returns the parameters for the retry; null if the result is final. */
function chooseRetryParams(
  result: CreateQuoteResult,
  params: CreateQuoteParams,
): CreateQuoteParams | null {
  const { description, descriptionHash, ...paramsWithoutDescription } = params;
  switch (result.outcome) {
    case 'created':
      return null;
    case 'rate_limited':
      return params;
    case 'rejected':
      return (description ?? descriptionHash) ? paramsWithoutDescription : null;
    case 'unavailable':
      // cdk-mintd sends 500 if its Lightning node rejects a description, Nutshell if its database is locked.
      return result.status === 500 ? paramsWithoutDescription : params;
  }
}
