import { LRUCache } from 'lru-cache';
import type { Logger } from '../log.ts';
import type { CreateQuoteResult, MintClient, RequestWait } from './mint-client.ts';

/** cdk-mintd sends 500 if its Lightning node rejects a description, Nutshell if its database is locked. */
const INTERNAL_SERVER_ERROR = 500;

/** Afterwards descriptions of a rejected length are sent again, because the mint may have been fixed. */
const DESCRIPTION_LENGTH_TTL_MS = 5 * 60_000;

/** Far more mints than are in use at a time. Users could otherwise fill the memory by naming mints. */
const MAX_CACHED_MINTS = 5_000;

type CreateQuoteParams = Parameters<MintClient['createQuote']>[1];

interface QuoteCreatorContext {
  client: Pick<MintClient, 'createQuote'>;
  /** How long a payer may wait before the last request is sent. */
  payerMaxWaitMs: number;
  monotonicMs: () => number;
  log: Pick<Logger, 'info'>;
}

/**
 * Creates quotes for payers who are waiting. Retries once, because an unpaid quote costs the mint nothing, and omits
 * descriptions that the mint would reject.
 */
export class QuoteCreator {
  readonly #deps: QuoteCreatorContext;
  /** By mint: the length of the shortest description that it rejected recently. Shorter ones are still sent. */
  readonly #shortestRejectedBytes: LRUCache<string, number>;
  /** By mint: the length of the longest description that it accepted recently. It also accepts shorter ones. */
  readonly #longestAcceptedBytes: LRUCache<string, number>;

  constructor(deps: QuoteCreatorContext) {
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
   * Creates a mint quote; see {@link MintClient.createQuote}. Until the payer's deadline, retries once after a 429 or a
   * failure, or without the description after a response that may be caused by the description.
   *
   * @param addressGroup of the payer
   */
  async createQuote(
    mintUrl: string,
    params: CreateQuoteParams,
    addressGroup: string,
  ): Promise<CreateQuoteResult> {
    const { payerMaxWaitMs, monotonicMs, log } = this.#deps;
    const deadlineMs = monotonicMs() + payerMaxWaitMs;
    const bytes = getDescriptionBytes(params);
    const isTooLong = bytes >= (this.#shortestRejectedBytes.get(mintUrl) ?? Infinity);
    const firstParams = isTooLong ? withoutDescription(params) : params;
    const firstResult = await this.#send(mintUrl, firstParams, {
      addressGroup,
      maxWaitMs: payerMaxWaitMs,
    });
    const retryParams = chooseRetryParams(firstResult, firstParams);
    const maxWaitMs = deadlineMs - monotonicMs();
    if (retryParams === null || maxWaitMs <= 0) {
      return firstResult;
    }
    const secondResult = await this.#send(mintUrl, retryParams, { addressGroup, maxWaitMs });
    if (secondResult.outcome === 'rate_limited' && firstResult.outcome !== 'rate_limited') {
      return firstResult;
    }
    // Not after `unavailable`, because the cause may have been a locked database instead of the description.
    const isDescriptionRejected =
      firstResult.outcome === 'rejected' && secondResult.outcome === 'created';
    if (isDescriptionRejected && bytes > (this.#longestAcceptedBytes.get(mintUrl) ?? 0)) {
      this.#shortestRejectedBytes.set(mintUrl, bytes);
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
    const result = await this.#deps.client.createQuote(mintUrl, params, wait);
    const bytes = getDescriptionBytes(params);
    if (result.outcome === 'created' && bytes >= (this.#longestAcceptedBytes.get(mintUrl) ?? 0)) {
      this.#longestAcceptedBytes.set(mintUrl, bytes);
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
      return result.status === INTERNAL_SERVER_ERROR ? withoutDescription(params) : params;
  }
}

function getDescriptionBytes({ description, descriptionHash }: CreateQuoteParams): number {
  return Buffer.byteLength(description ?? descriptionHash ?? '');
}

function withoutDescription({ amountSat, pubkey }: CreateQuoteParams): CreateQuoteParams {
  return { amountSat, ...(pubkey !== undefined && { pubkey }) };
}
