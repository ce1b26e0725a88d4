import { LRUCache } from 'lru-cache';
import type { Logger } from '../log.ts';
import { MAX_CACHED_MINTS } from './limits.ts';
import type { CreateQuoteResult, MintClient } from './mint-client.ts';
import type { RequestWait } from './mint-rate-limiter.ts';

type CreateQuoteParams = Parameters<MintClient['createQuote']>[1];

interface QuoteCreatorContext {
  client: Pick<MintClient, 'createQuote'>;
  payerMaxWaitMs: number;
  monotonicMs: () => number;
  log: Pick<Logger, 'info'>;
}

/** Creates quotes for payers who are waiting. Retries once, because an unpaid quote costs the mint nothing. */
export class QuoteCreator {
  readonly #context: QuoteCreatorContext;
  /** How long descriptions may be, by mint. Forgotten after five minutes, because the mint may have been fixed. */
  readonly #byteLimits: LRUCache<string, { longestAccepted: number; shortestRejected: number }>;

  constructor(context: QuoteCreatorContext) {
    this.#context = context;
    this.#byteLimits = new LRUCache({
      max: MAX_CACHED_MINTS,
      ttl: 5 * 60_000,
      ttlResolution: 0,
      perf: { now: context.monotonicMs },
      memoMethod: () => ({ longestAccepted: 0, shortestRejected: Number.POSITIVE_INFINITY }),
    });
  }

  async createQuote(
    mintUrl: string,
    params: CreateQuoteParams,
    addressGroup: string,
  ): Promise<CreateQuoteResult> {
    const { payerMaxWaitMs, monotonicMs, log } = this.#context;
    const deadlineMs = monotonicMs() + payerMaxWaitMs;
    const bytes = getDescriptionBytes(params);
    const isTooLong = bytes >= this.#byteLimits.memo(mintUrl).shortestRejected;
    const firstParams = isTooLong ? withoutDescription(params) : params;
    const firstWait = { addressGroup, maxWaitMs: payerMaxWaitMs };
    const firstResult = await this.#send(mintUrl, firstParams, firstWait);
    const retryParams = chooseRetryParams(firstResult, firstParams);
    const maxWaitMs = deadlineMs - monotonicMs();
    if (retryParams === null || maxWaitMs <= 0) {
      return firstResult;
    }
    const secondResult = await this.#send(mintUrl, retryParams, { addressGroup, maxWaitMs });
    // The first result says more about the cause than a rate limit.
    if (secondResult.outcome === 'rate_limited' && firstResult.outcome !== 'rate_limited') {
      return firstResult;
    }
    // If the first result was `unavailable`, the cause may have been a locked database instead of the description.
    const isDescriptionRejected =
      firstResult.outcome === 'rejected' && secondResult.outcome === 'created';
    const byteLimits = this.#byteLimits.memo(mintUrl);
    if (isDescriptionRejected && bytes > byteLimits.longestAccepted) {
      byteLimits.shortestRejected = bytes;
      log.info(
        { event: 'mint_rejects_descriptions', mintUrl, bytes },
        'mint rejects invoice descriptions of this length; creating quotes without one',
      );
    }
    return secondResult;
  }

  async #send(
    mintUrl: string,
    params: CreateQuoteParams,
    wait: RequestWait,
  ): Promise<CreateQuoteResult> {
    const result = await this.#context.client.createQuote(mintUrl, params, wait);
    if (result.outcome === 'created') {
      const byteLimits = this.#byteLimits.memo(mintUrl);
      const bytes = getDescriptionBytes(params);
      byteLimits.longestAccepted = Math.max(byteLimits.longestAccepted, bytes);
    }
    return result;
  }
}

/** Returns the parameters for the retry; null if the result is final. */
function chooseRetryParams(
  result: CreateQuoteResult,
  params: CreateQuoteParams,
): CreateQuoteParams | null {
  switch (result.outcome) {
    case 'created':
      return null;
    case 'rate_limited':
      return params;
    case 'rejected':
      return getDescriptionBytes(params) > 0 ? withoutDescription(params) : null;
    case 'unavailable':
      // cdk-mintd sends 500 if its Lightning node rejects a description, Nutshell if its database is locked.
      return result.status === 500 ? withoutDescription(params) : params;
  }
}

function getDescriptionBytes({ description, descriptionHash }: CreateQuoteParams): number {
  return Buffer.byteLength(description ?? descriptionHash ?? '');
}

function withoutDescription({ amountSat, pubkey }: CreateQuoteParams): CreateQuoteParams {
  return { amountSat, ...(pubkey !== undefined && { pubkey }) };
}
