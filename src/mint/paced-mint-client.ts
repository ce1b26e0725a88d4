import type {
  CheckQuotesAnswer,
  CreateQuoteAnswer,
  MintClient,
  ReadInfoAnswer,
  ReadQuoteAnswer,
} from './mint-client.ts';
import type { MintRoute } from './request-budget.ts';
import { type PacerParts, RequestPacer } from './request-pacer.ts';

/**
 * A Nutshell on SQLite says 500 when it could not lock its database in time. Creating a quote is
 * tried once more then: one too many costs nobody anything.
 */
const BUSY = 'status 500';

/** What is asked of mints. */
type Asking = Pick<MintClient, 'createQuote' | 'readQuote' | 'checkQuotes' | 'readInfo'>;

/** A {@link MintClient} that leaves a mint alone when it should: see {@link RequestPacer}. */
export class PacedMintClient {
  readonly #client: Asking;
  readonly #pacer: RequestPacer;

  constructor({ client, ...parts }: PacerParts & { client: Asking }) {
    this.#client = client;
    this.#pacer = new RequestPacer(parts);
  }

  /** Milliseconds until a route of a mint may be used; 0 is now. */
  waitMs(mintUrl: string, route: MintRoute): number {
    return this.#pacer.waitMs(mintUrl, route);
  }

  /** See {@link MintClient.createQuote}. A mint that is busy for a moment is asked once more. */
  createQuote(
    ...[mintUrl, params]: Parameters<MintClient['createQuote']>
  ): Promise<CreateQuoteAnswer> {
    const ask = () => this.#client.createQuote(mintUrl, params);
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
}

function isBusy(answer: CreateQuoteAnswer): boolean {
  return answer.outcome === 'unavailable' && answer.reason === BUSY;
}
