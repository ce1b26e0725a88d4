import { LRUCache } from 'lru-cache';
import type { Log } from '../log.ts';
import type { CreateQuoteAnswer, MintClient } from './mint-client.ts';
import type { MintPermit, MintRateLimiter } from './mint-rate-limiter.ts';

/** A Nutshell on SQLite answers 500 if its database was locked; a cdk-mintd, if its node rejects a description. */
const BUSY = 'status 500';

/** After this time a text of a rejected length is sent again, because the mint may have been fixed. */
const REMEMBERED_MS = 5 * 60_000;

/** Far more mints than are in use at a time. */
const MAX_MINTS = 5_000;

type CreateQuoteParams = Parameters<MintClient['createQuote']>[1];

export interface QuoteCreatorParts {
  client: Pick<MintClient, 'createQuote'>;
  limiter: MintRateLimiter;
  monotonicMs: () => number;
  log: Pick<Log, 'info'>;
}

/** Creates quotes for payers, who wait: with retries, and with descriptions that the mint accepts. */
export class QuoteCreator {
  readonly #parts: QuoteCreatorParts;
  /**
   * The shortest description that each mint lately rejected, in bytes, so that only one invoice pays for
   * finding out, and one payer's long comment does not cost others theirs.
   */
  readonly #shortestRejected: LRUCache<string, number>;
  /** The longest one that it lately accepted: a refusal up to that length has another cause. */
  readonly #longestAccepted: LRUCache<string, number>;

  constructor(parts: QuoteCreatorParts) {
    this.#parts = parts;
    const options = {
      max: MAX_MINTS,
      ttl: REMEMBERED_MS,
      ttlResolution: 0,
      perf: { now: parts.monotonicMs },
    };
    this.#shortestRejected = new LRUCache(options);
    this.#longestAccepted = new LRUCache(options);
  }

  /**
   * Creates a mint quote; see {@link MintClient.createQuote}. A request that fails in a way that a second
   * one may not is repeated once, within the payer's patience: after a 429, after a 500, and without the
   * description if the mint may have rejected that. An additional unpaid quote costs nothing.
   *
   * @param permit for the first request on the route `create`
   */
  async createQuote(
    mintUrl: string,
    permit: MintPermit,
    params: CreateQuoteParams,
  ): Promise<CreateQuoteAnswer> {
    const { limiter, monotonicMs, log } = this.#parts;
    const shortestRejected = this.#shortestRejected.get(mintUrl) ?? Number.POSITIVE_INFINITY;
    const firstParams = textBytes(params) >= shortestRejected ? withoutText(params) : params;
    const first = await this.#send(mintUrl, firstParams, permit);
    const secondParams = paramsOfRetry(first, firstParams);
    if (secondParams === null) {
      return first;
    }
    const { addressGroup, patienceUntilMs } = permit;
    const patienceMs = patienceUntilMs - monotonicMs();
    const acquired = await limiter.acquire(mintUrl, 'create', { addressGroup, patienceMs });
    if (acquired.outcome === 'rate_limited') {
      return first.outcome === 'rate_limited' ? acquired : first;
    }
    const second = await this.#send(mintUrl, secondParams, acquired.permit);
    // A failure says less: the mint's database may have been locked.
    const isTextRejected = first.outcome === 'refused' && second.outcome === 'created';
    const bytes = textBytes(firstParams);
    if (isTextRejected && bytes > this.#acceptedBytes(mintUrl)) {
      this.#shortestRejected.set(mintUrl, bytes);
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
  ): Promise<CreateQuoteAnswer> {
    const answer = await this.#parts.client.createQuote(mintUrl, params, permit);
    const bytes = textBytes(params);
    // A shorter text does not keep the longest one remembered.
    if (answer.outcome === 'created' && bytes > 0 && bytes >= this.#acceptedBytes(mintUrl)) {
      this.#longestAccepted.set(mintUrl, bytes);
    }
    return answer;
  }

  #acceptedBytes(mintUrl: string): number {
    return this.#longestAccepted.get(mintUrl) ?? 0;
  }
}

/** What to send the second time; null if the answer is final. */
function paramsOfRetry(
  answer: CreateQuoteAnswer,
  params: CreateQuoteParams,
): CreateQuoteParams | null {
  if (answer.outcome === 'rate_limited') {
    return params;
  }
  const isBusy = answer.outcome === 'unavailable' && answer.reason === BUSY;
  const isTextSuspect = answer.outcome === 'refused' && textBytes(params) > 0;
  return isBusy || isTextSuspect ? withoutText(params) : null;
}

/** The length of the text that the invoice should carry; 0 if there is none. */
function textBytes({ description, descriptionHash }: CreateQuoteParams): number {
  return Buffer.byteLength(description ?? descriptionHash ?? '');
}

function withoutText({ amountSat, pubkey }: CreateQuoteParams): CreateQuoteParams {
  return { amountSat, ...(pubkey !== undefined && { pubkey }) };
}
