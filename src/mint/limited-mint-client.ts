import { LRUCache } from 'lru-cache';
import type { Log } from '../log.ts';
import type {
  CheckQuotesAnswer,
  CreateQuoteAnswer,
  MintClient,
  RateLimited,
  ReadInfoAnswer,
  ReadQuoteAnswer,
} from './mint-client.ts';
import type { MintPermit, MintRateLimiter, MintRoute } from './mint-rate-limiter.ts';
import type { RequestOutcome } from './route-limit.ts';

/** A Nutshell on SQLite answers 500 if its database was locked; a cdk-mintd, if its node rejects a description. */
const BUSY = 'status 500';

/** After this time a text of a rejected length is sent again, because the mint may have been fixed. */
const REMEMBERED_MS = 5 * 60_000;

/** Far more mints than are in use at a time. */
const MAX_MINTS = 5_000;

type CreateQuoteParams = Parameters<MintClient['createQuote']>[1];

export interface LimitedMintClientParts {
  client: Pick<MintClient, 'createQuote' | 'readQuote' | 'checkQuotes' | 'readInfo'>;
  limiter: MintRateLimiter;
  monotonicMs: () => number;
  log: Pick<Log, 'info'>;
}

/** A {@link MintClient} that asks a mint only when the {@link MintRateLimiter} permits. */
export class LimitedMintClient {
  readonly #parts: LimitedMintClientParts;
  /**
   * The shortest description that each mint lately rejected, in bytes, so that only one invoice pays for
   * finding out, and one payer's long comment does not cost others theirs.
   */
  readonly #shortestRejected: LRUCache<string, number>;
  /** The longest description that each mint lately accepted, in bytes. */
  readonly #longestAccepted: LRUCache<string, number>;

  constructor(parts: LimitedMintClientParts) {
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

  /** Milliseconds until batches, or single reads, can be sent; 0 is now. */
  waitMs(mintUrl: string, route: 'check' | 'read'): number {
    return this.#parts.limiter.waitMs(mintUrl, route);
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
    const { limiter, monotonicMs } = this.#parts;
    const shortestRejected = this.#shortestRejected.get(mintUrl) ?? Number.POSITIVE_INFINITY;
    const firstParams = textBytes(params) >= shortestRejected ? withoutText(params) : params;
    const first = await this.#create(mintUrl, permit, firstParams);
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
    const second = await this.#create(mintUrl, acquired.permit, secondParams);
    if (second.outcome === 'created' && textBytes(secondParams) < textBytes(firstParams)) {
      this.#noteRejected(mintUrl, textBytes(firstParams));
    }
    return second;
  }

  /** See {@link MintClient.readQuote}. */
  readQuote(mintUrl: string, quoteId: string): Promise<ReadQuoteAnswer | RateLimited> {
    const { limiter, client } = this.#parts;
    return limitedRequest(limiter, mintUrl, 'read', () => client.readQuote(mintUrl, quoteId));
  }

  /** See {@link MintClient.checkQuotes}. */
  checkQuotes(
    mintUrl: string,
    quoteIds: readonly string[],
  ): Promise<CheckQuotesAnswer | RateLimited> {
    const { limiter, client } = this.#parts;
    return limitedRequest(limiter, mintUrl, 'check', () => client.checkQuotes(mintUrl, quoteIds));
  }

  /** See {@link MintClient.readInfo}. */
  readInfo(mintUrl: string): Promise<ReadInfoAnswer | RateLimited> {
    const { limiter, client } = this.#parts;
    return limitedRequest(limiter, mintUrl, 'info', () => client.readInfo(mintUrl));
  }

  async #create(
    mintUrl: string,
    permit: MintPermit,
    params: CreateQuoteParams,
  ): Promise<CreateQuoteAnswer> {
    const answer = await permittedRequest(permit, 'create', () =>
      this.#parts.client.createQuote(mintUrl, params),
    );
    const longestAccepted = this.#longestAccepted.get(mintUrl) ?? 0;
    if (answer.outcome === 'created' && textBytes(params) >= longestAccepted) {
      this.#longestAccepted.set(mintUrl, textBytes(params));
    }
    return answer;
  }

  /** A mint that lately accepted a text as long had another reason, such as a locked database. */
  #noteRejected(mintUrl: string, bytes: number): void {
    if (bytes > (this.#longestAccepted.get(mintUrl) ?? 0)) {
      this.#shortestRejected.set(mintUrl, bytes);
      this.#parts.log.info(
        { event: 'mint_rejects_descriptions', mintUrl, bytes },
        'mint rejects invoice descriptions of this length; creating quotes without one',
      );
    }
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
async function permittedRequest<Answer extends LimitedAnswer>(
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
