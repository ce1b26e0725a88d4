import type { Clock } from '../domain/clock.ts';
import type {
  CheckQuotesAnswer,
  CreateQuoteAnswer,
  MintClient,
  ReadInfoAnswer,
  ReadQuoteAnswer,
} from './mint-client.ts';
import type { RecipientShares } from './recipient-shares.ts';
import type { MintRoute, RequestBudget } from './request-budget.ts';
import { isOurOwnDoing, type PacerParts, RequestPacer } from './request-pacer.ts';

/**
 * A Nutshell on SQLite says 500 when it could not lock its database in time. Creating a quote is
 * tried once more then: one too many costs nobody anything.
 */
const BUSY = 'status 500';

/** What is asked of mints. */
type Asking = Pick<MintClient, 'createQuote' | 'readQuote' | 'checkQuotes' | 'readInfo'>;

type SharedCreateQuoteAnswer =
  | CreateQuoteAnswer
  /** The recipient has had its share of what the mint bears; the mint heard nothing. */
  | { outcome: 'share_used'; retryAfterMs: number };

/** A {@link MintClient} that leaves a mint alone when it should: see {@link RequestPacer}. */
export class PacedMintClient {
  readonly #client: Asking;
  readonly #pacer: RequestPacer;
  readonly #budget: RequestBudget;
  readonly #shares: RecipientShares;
  readonly #clock: Clock;

  constructor(parts: PacerParts & { client: Asking; shares: RecipientShares }) {
    this.#client = parts.client;
    this.#pacer = new RequestPacer(parts);
    this.#budget = parts.budget;
    this.#shares = parts.shares;
    this.#clock = parts.clock;
  }

  /** Milliseconds until a route of a mint may be used; 0 is now. */
  waitMs(mintUrl: string, route: MintRoute): number {
    return this.#pacer.waitMs(mintUrl, route);
  }

  /**
   * See {@link MintClient.createQuote}. A mint that is busy for a moment is asked once more.
   *
   * @param recipient whose quote it is to be; each has a share, see {@link RecipientShares}
   */
  async createQuote(
    mintUrl: string,
    recipient: string,
    params: Parameters<MintClient['createQuote']>[1],
  ): Promise<SharedCreateQuoteAnswer> {
    const retryAfterMs = this.#waitForShareMs(mintUrl, recipient);
    if (retryAfterMs > 0) {
      this.#budget.leftToOthers(mintUrl, 'create');
      return { outcome: 'share_used', retryAfterMs };
    }
    const ask = () => this.#askForQuote(mintUrl, recipient, params);
    return this.#pacer.paced(mintUrl, 'create', ask, isBusy);
  }

  /** See {@link MintClient.readQuote}. */
  readQuote(...[mintUrl, quoteId]: Parameters<MintClient['readQuote']>): Promise<ReadQuoteAnswer> {
    return this.#pacer.paced(mintUrl, 'read', () => this.#client.readQuote(mintUrl, quoteId));
  }

  /** See {@link MintClient.checkQuotes}. */
  checkQuotes(
    ...[mintUrl, quoteIds]: Parameters<MintClient['checkQuotes']>
  ): Promise<CheckQuotesAnswer> {
    return this.#pacer.paced(mintUrl, 'check', () => this.#client.checkQuotes(mintUrl, quoteIds));
  }

  /** See {@link MintClient.readInfo}. */
  readInfo(mintUrl: string): Promise<ReadInfoAnswer> {
    return this.#pacer.paced(mintUrl, 'info', () => this.#client.readInfo(mintUrl));
  }

  #waitForShareMs(mintUrl: string, recipient: string): number {
    const now = this.#clock();
    const use = this.#budget.use(mintUrl, 'create', now);
    return this.#shares.waitMs(mintUrl, recipient, use, now);
  }

  async #askForQuote(
    mintUrl: string,
    recipient: string,
    params: Parameters<MintClient['createQuote']>[1],
  ): Promise<CreateQuoteAnswer> {
    const now = this.#clock();
    const use = this.#budget.use(mintUrl, 'create', now);
    const request = this.#shares.sent(mintUrl, recipient, use, now);
    const answer = await this.#client.createQuote(mintUrl, params);
    if (isOurOwnDoing(answer)) {
      this.#shares.withdraw(request);
    } else {
      this.#shares.record(request, answer, this.#clock());
    }
    return answer;
  }
}

function isBusy(answer: CreateQuoteAnswer): boolean {
  return answer.outcome === 'unavailable' && answer.reason === BUSY;
}
