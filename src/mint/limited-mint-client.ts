import type { Log } from '../log.ts';
import type { RateLimited } from './ask-mint.ts';
import { DescriptionSupport } from './description-support.ts';
import { limitedRequest, permittedRequest } from './limited-request.ts';
import type {
  CheckQuotesAnswer,
  CreateQuoteAnswer,
  MintClient,
  ReadInfoAnswer,
  ReadQuoteAnswer,
} from './mint-client.ts';
import type { MintPermit, MintRateLimiter } from './mint-rate-limiter.ts';

/** A Nutshell on SQLite answers 500 if its database was locked; a cdk-mintd, if its node rejects a description. */
const BUSY = 'status 500';

type QuoteClient = Pick<MintClient, 'createQuote' | 'readQuote' | 'checkQuotes' | 'readInfo'>;

type CreateQuoteParams = Parameters<MintClient['createQuote']>[1];

/** A {@link MintClient} that asks a mint only when the {@link MintRateLimiter} permits. */
export class LimitedMintClient {
  readonly #client: QuoteClient;
  readonly #limiter: MintRateLimiter;
  readonly #descriptions: DescriptionSupport;
  readonly #monotonicMs: () => number;
  readonly #log: Pick<Log, 'info'>;

  constructor(parts: {
    client: QuoteClient;
    limiter: MintRateLimiter;
    monotonicMs: () => number;
    log: Pick<Log, 'info'>;
  }) {
    this.#client = parts.client;
    this.#limiter = parts.limiter;
    this.#descriptions = new DescriptionSupport(parts.monotonicMs);
    this.#monotonicMs = parts.monotonicMs;
    this.#log = parts.log;
  }

  /** Milliseconds until batches, or single reads, can be sent; 0 is now. */
  waitMs(mintUrl: string, route: 'check' | 'read'): number {
    return this.#limiter.waitMs(mintUrl, route);
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
    const text = textOf(params);
    const isRejected = this.#descriptions.rejects(mintUrl, text);
    const firstParams = isRejected ? withoutText(params) : params;
    const create = (some: CreateQuoteParams) => () => this.#client.createQuote(mintUrl, some);
    const first = await permittedRequest(permit, 'create', create(firstParams));
    const secondParams = paramsOfRetry(first, firstParams);
    if (secondParams === null) {
      this.#noteAccepted(mintUrl, first, firstParams);
      return first;
    }
    const { addressGroup, patienceUntilMs } = permit;
    const patienceMs = patienceUntilMs - this.#monotonicMs();
    const acquired = await this.#limiter.acquire(mintUrl, 'create', { addressGroup, patienceMs });
    if (acquired.outcome === 'rate_limited') {
      return first.outcome === 'rate_limited' ? acquired : first;
    }
    const second = await permittedRequest(acquired.permit, 'create', create(secondParams));
    this.#noteAccepted(mintUrl, second, secondParams);
    const isTextToBlame = second.outcome === 'created' && secondParams !== firstParams;
    if (isTextToBlame && this.#descriptions.noteRejected(mintUrl, text)) {
      this.#log.info(
        { event: 'mint_rejects_descriptions', mintUrl },
        'mint rejects invoice descriptions; creating quotes without one',
      );
    }
    return second;
  }

  /** See {@link MintClient.readQuote}. */
  readQuote(mintUrl: string, quoteId: string): Promise<ReadQuoteAnswer | RateLimited> {
    return limitedRequest(this.#limiter, mintUrl, 'read', () =>
      this.#client.readQuote(mintUrl, quoteId),
    );
  }

  /** See {@link MintClient.checkQuotes}. */
  checkQuotes(
    mintUrl: string,
    quoteIds: readonly string[],
  ): Promise<CheckQuotesAnswer | RateLimited> {
    return limitedRequest(this.#limiter, mintUrl, 'check', () =>
      this.#client.checkQuotes(mintUrl, quoteIds),
    );
  }

  /** See {@link MintClient.readInfo}. */
  readInfo(mintUrl: string): Promise<ReadInfoAnswer | RateLimited> {
    return limitedRequest(this.#limiter, mintUrl, 'info', () => this.#client.readInfo(mintUrl));
  }

  #noteAccepted(mintUrl: string, answer: CreateQuoteAnswer, params: CreateQuoteParams): void {
    if (answer.outcome === 'created') {
      this.#descriptions.noteAccepted(mintUrl, textOf(params));
    }
  }
}

/** What to send the second time; null if the answer is final. */
function paramsOfRetry(
  answer: CreateQuoteAnswer,
  params: CreateQuoteParams,
): CreateQuoteParams | null {
  const isBusy = answer.outcome === 'unavailable' && answer.reason === BUSY;
  if (answer.outcome === 'rate_limited') {
    return params;
  }
  const hasText = textOf(params) !== '';
  if (isBusy || (answer.outcome === 'refused' && hasText)) {
    return hasText ? withoutText(params) : params;
  }
  return null;
}

/** The text that the invoice is to carry; empty if none. */
function textOf({ description, descriptionHash }: CreateQuoteParams): string {
  return description ?? descriptionHash ?? '';
}

function withoutText({
  description: _description,
  descriptionHash: _descriptionHash,
  ...plain
}: CreateQuoteParams): CreateQuoteParams {
  return plain;
}
