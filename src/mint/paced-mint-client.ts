import type { Clock } from '../domain/clock.ts';
import type {
  CheckQuotesAnswer,
  CreateQuoteAnswer,
  MintClient,
  ReadInfoAnswer,
  ReadQuoteAnswer,
} from './mint-client.ts';
import type { MintRoute, RequestBudget, RequestOutcome } from './request-budget.ts';

/**
 * A {@link MintClient} that leaves a mint alone when it should: while a route rests, it answers
 * `rate_limited` by itself and the mint hears nothing.
 */
export class PacedMintClient {
  readonly #client: MintClient;
  readonly #budget: RequestBudget;
  readonly #clock: Clock;

  constructor(parts: { client: MintClient; budget: RequestBudget; clock: Clock }) {
    this.#client = parts.client;
    this.#budget = parts.budget;
    this.#clock = parts.clock;
  }

  /** Milliseconds until a route of a mint may be used; 0 is now. */
  waitMs(mintUrl: string, route: MintRoute): number {
    return this.#budget.waitMs(mintUrl, route, this.#clock());
  }

  /** See {@link MintClient.createQuote}. */
  createQuote(
    ...[mintUrl, params]: Parameters<MintClient['createQuote']>
  ): Promise<CreateQuoteAnswer> {
    return this.#paced(mintUrl, 'create', () => this.#client.createQuote(mintUrl, params));
  }

  /** See {@link MintClient.readQuote}. */
  readQuote(...[mintUrl, quoteId]: Parameters<MintClient['readQuote']>): Promise<ReadQuoteAnswer> {
    return this.#paced(mintUrl, 'read', () => this.#client.readQuote(mintUrl, quoteId));
  }

  /** See {@link MintClient.checkQuotes}. */
  checkQuotes(
    ...[mintUrl, quoteIds]: Parameters<MintClient['checkQuotes']>
  ): Promise<CheckQuotesAnswer> {
    return this.#paced(mintUrl, 'check', () => this.#client.checkQuotes(mintUrl, quoteIds));
  }

  /** See {@link MintClient.readInfo}. */
  readInfo(mintUrl: string): Promise<ReadInfoAnswer> {
    return this.#paced(mintUrl, 'info', () => this.#client.readInfo(mintUrl));
  }

  async #paced<Answer extends RequestOutcome>(
    mintUrl: string,
    route: MintRoute,
    ask: () => Promise<Answer>,
  ): Promise<Answer | { outcome: 'rate_limited'; retryAfterMs: number }> {
    const waitMs = this.waitMs(mintUrl, route);
    if (waitMs > 0) {
      return { outcome: 'rate_limited', retryAfterMs: waitMs };
    }
    const answer = await ask();
    this.#budget.record(mintUrl, route, answer, this.#clock());
    return answer;
  }
}
