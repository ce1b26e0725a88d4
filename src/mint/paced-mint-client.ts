import type { Logger } from 'pino';
import type { Clock } from '../domain/clock.ts';
import type {
  CheckQuotesAnswer,
  CreateQuoteAnswer,
  MintClient,
  ReadInfoAnswer,
  ReadQuoteAnswer,
} from './mint-client.ts';
import type { MintRoute, RequestBudget } from './request-budget.ts';
import type { RequestOutcome } from './route-budget.ts';

/**
 * A Nutshell on SQLite says 500 when it could not lock its database in time. Creating a quote is
 * tried once more then: one too many costs nobody anything.
 */
const BUSY = 'status 500';

/** What is asked of mints. */
type Asking = Pick<MintClient, 'createQuote' | 'readQuote' | 'checkQuotes' | 'readInfo'>;

/** Beyond this many silent mints the oldest is forgotten: strangers can name any number. */
const MAX_SILENT = 1_000;

/**
 * A {@link MintClient} that leaves a mint alone when it should: while a route rests, or our own bound
 * on requests is reached, it answers `rate_limited` by itself and the mint hears nothing.
 */
export class PacedMintClient {
  readonly #client: Asking;
  readonly #budget: RequestBudget;
  readonly #clock: Clock;
  readonly #log: Pick<Logger, 'warn' | 'info'>;
  /** Routes of mints that gave no usable answer the last time. */
  readonly #silent = new Set<string>();

  constructor(parts: {
    client: Asking;
    budget: RequestBudget;
    clock: Clock;
    log: Pick<Logger, 'warn' | 'info'>;
  }) {
    this.#log = parts.log;
    this.#client = parts.client;
    this.#budget = parts.budget;
    this.#clock = parts.clock;
  }

  /** Milliseconds until a route of a mint may be used; 0 is now. */
  waitMs(mintUrl: string, route: MintRoute): number {
    return this.#budget.waitMs(mintUrl, route, this.#clock());
  }

  /** See {@link MintClient.createQuote}. A mint that is busy for a moment is asked once more. */
  createQuote(
    ...[mintUrl, params]: Parameters<MintClient['createQuote']>
  ): Promise<CreateQuoteAnswer> {
    const ask = () => this.#client.createQuote(mintUrl, params);
    return this.#paced(mintUrl, 'create', ask, isBusy);
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
    isWorthAnotherTry: (answer: Answer) => boolean = () => false,
  ): Promise<Answer | { outcome: 'rate_limited'; retryAfterMs: number }> {
    const waitMs = this.waitMs(mintUrl, route);
    if (waitMs > 0) {
      return { outcome: 'rate_limited', retryAfterMs: waitMs };
    }
    // Counted before it is answered, so that many at a time do not overrun what the mint allows.
    let request = this.#budget.sent(mintUrl, route, this.#clock());
    let answer = await ask();
    if (isWorthAnotherTry(answer) && this.waitMs(mintUrl, route) === 0) {
      // What comes of the second request stands for both: two failures together are one.
      request = this.#budget.sent(mintUrl, route, this.#clock());
      answer = await ask();
    }
    if (isOurOwnRefusal(answer)) {
      this.#budget.withdraw(request);
      return { outcome: 'rate_limited', retryAfterMs: 0 };
    }
    this.#budget.record(request, answer, this.#clock());
    this.#tellOfChange(mintUrl, route, answer);
    return answer;
  }

  /** One line when a mint falls silent, and one when it is back. */
  #tellOfChange(mintUrl: string, route: MintRoute, answer: RequestOutcome & { reason?: string }) {
    const key = `${route} ${mintUrl}`;
    if (answer.outcome === 'unavailable') {
      if (!this.#silent.has(key)) {
        this.#remember(key);
        this.#log.warn({ mintUrl, route, reason: answer.reason }, 'a mint does not answer');
      }
    } else if (this.#silent.delete(key)) {
      this.#log.info({ mintUrl, route }, 'a mint answers again');
    }
  }

  #remember(key: string): void {
    this.#silent.add(key);
    const [oldest] = this.#silent;
    if (this.#silent.size > MAX_SILENT && oldest !== undefined) {
      this.#silent.delete(oldest);
    }
  }
}

function isBusy(answer: CreateQuoteAnswer): boolean {
  return answer.outcome === 'unavailable' && answer.reason === BUSY;
}

/** The mint heard nothing of it: our own bound was reached, or we are closing. */
function isOurOwnRefusal(answer: RequestOutcome & { reason?: string }): boolean {
  return answer.reason === 'too many requests in flight' || answer.reason === 'closed';
}
