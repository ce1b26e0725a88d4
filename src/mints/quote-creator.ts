import { LRUCache } from 'lru-cache';
import type { Logger } from '../log.ts';
import type { CreateQuoteResult, MintClient } from './mint-client.ts';
import type { MintPermit, MintRateLimiter } from './mint-rate-limiter.ts';

/** Nutshell's status if its SQLite database is locked, and cdk-mintd's if its node rejects a description. */
const INTERNAL_SERVER_ERROR_REASON = 'status 500';

/** After this time a description of a rejected length is sent again, because the mint may have been fixed. */
const DESCRIPTION_LENGTH_TTL_MS = 5 * 60_000;

/** Far more mints than are in use at a time. Users can name any number. */
const MAX_CACHED_MINTS = 5_000;

type CreateQuoteParams = Parameters<MintClient['createQuote']>[1];

interface QuoteCreatorDeps {
  client: Pick<MintClient, 'createQuote'>;
  limiter: MintRateLimiter;
  monotonicMs: () => number;
  log: Pick<Logger, 'info'>;
}

/** Creates quotes for payers who are waiting: retries once, and sends only descriptions that the mint accepts. */
export class QuoteCreator {
  readonly #deps: QuoteCreatorDeps;
  /**
   * By mint, the shortest description that it rejected recently. Only one invoice needs a second request, and
   * one payer's long comment does not remove the descriptions of others.
   */
  readonly #shortestRejectedBytes: LRUCache<string, number>;
  /** By mint, the longest description that it accepted recently: a rejection up to that length has another cause. */
  readonly #longestAcceptedBytes: LRUCache<string, number>;

  constructor(deps: QuoteCreatorDeps) {
    this.#deps = deps;
    const options = {
      max: MAX_CACHED_MINTS,
      ttl: DESCRIPTION_LENGTH_TTL_MS,
      ttlResolution: 0,
      perf: { now: deps.monotonicMs },
    };
    this.#shortestRejectedBytes = new LRUCache(options);
    this.#longestAcceptedBytes = new LRUCache(options);
  }

  /**
   * Creates a mint quote; see {@link MintClient.createQuote}. Within the payer's deadline, retries once after a
   * 429, after a 500, and without the description if the mint may have rejected that. An additional unpaid quote
   * costs nothing.
   *
   * @param permit for the first request on the route `create`
   */
  async createQuote(
    mintUrl: string,
    permit: MintPermit,
    params: CreateQuoteParams,
  ): Promise<CreateQuoteResult> {
    const { limiter, monotonicMs, log } = this.#deps;
    const bytes = getDescriptionBytes(params);
    const isTooLong = bytes >= (this.#shortestRejectedBytes.get(mintUrl) ?? Infinity);
    const firstParams = isTooLong ? withoutDescription(params) : params;
    const first = await this.#send(mintUrl, firstParams, permit);
    const secondParams = chooseRetryParams(first, firstParams);
    if (secondParams === null) {
      return first;
    }
    const { addressGroup, waitDeadlineMs } = permit;
    const maxWaitMs = waitDeadlineMs - monotonicMs();
    const acquired = await limiter.acquire(mintUrl, 'create', { addressGroup, maxWaitMs });
    if (acquired.outcome === 'rate_limited') {
      return first.outcome === 'rate_limited' ? acquired : first;
    }
    const second = await this.#send(mintUrl, secondParams, acquired.permit);
    // After `unavailable`, the description is not proven to be the cause: the mint's database may have been locked.
    const isDescriptionRejected = first.outcome === 'rejected' && second.outcome === 'created';
    if (isDescriptionRejected && bytes > (this.#longestAcceptedBytes.get(mintUrl) ?? 0)) {
      this.#shortestRejectedBytes.set(mintUrl, bytes);
      log.info(
        { event: 'mint_rejects_descriptions', mintUrl, bytes },
        'mint rejects invoice descriptions of this length; creating quotes without one',
      );
    }
    return second;
  }

  async #send(
    mintUrl: string,
    params: CreateQuoteParams,
    permit: MintPermit,
  ): Promise<CreateQuoteResult> {
    const result = await this.#deps.client.createQuote(mintUrl, params, permit);
    const bytes = getDescriptionBytes(params);
    if (result.outcome === 'created' && bytes >= (this.#longestAcceptedBytes.get(mintUrl) ?? 0)) {
      this.#longestAcceptedBytes.set(mintUrl, bytes);
    }
    return result;
  }
}

/** Returns the parameters for a second request; null if the result is final. */
function chooseRetryParams(
  result: CreateQuoteResult,
  params: CreateQuoteParams,
): CreateQuoteParams | null {
  if (result.outcome === 'rate_limited') {
    return params;
  }
  const isBusy = result.outcome === 'unavailable' && result.reason === INTERNAL_SERVER_ERROR_REASON;
  const isDescriptionSuspect = result.outcome === 'rejected' && getDescriptionBytes(params) > 0;
  return isBusy || isDescriptionSuspect ? withoutDescription(params) : null;
}

function getDescriptionBytes({ description, descriptionHash }: CreateQuoteParams): number {
  return Buffer.byteLength(description ?? descriptionHash ?? '');
}

function withoutDescription({ amountSat, pubkey }: CreateQuoteParams): CreateQuoteParams {
  return { amountSat, ...(pubkey !== undefined && { pubkey }) };
}
