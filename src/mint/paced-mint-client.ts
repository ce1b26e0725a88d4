import type { Clock } from '../domain/clock.ts';
import type {
  CheckQuotesAnswer,
  CreateQuoteAnswer,
  MintClient,
  ReadInfoAnswer,
  ReadQuoteAnswer,
} from './mint-client.ts';
import type { MintShares, Payment } from './mint-shares.ts';
import { PATIENCE_MS, type PayersTurns, type Turn } from './payers-turns.ts';
import type { MintRoute, RequestBudget } from './request-budget.ts';
import { isOurOwnDoing, type NotSent, type PacerParts, RequestPacer } from './request-pacer.ts';

/**
 * A Nutshell on SQLite says 500 when it could not lock its database in time. Creating a quote is
 * tried once more then: one too many costs nobody anything.
 */
const BUSY = 'status 500';

/** Later than this, a payer has waited long enough for a first answer. */
const SECOND_TRY_WITHIN_MS = 3_000;

/** What is asked of mints. */
type Asking = Pick<MintClient, 'createQuote' | 'readQuote' | 'checkQuotes' | 'readInfo'>;

type CreateQuoteParams = Parameters<MintClient['createQuote']>[1];

/** What others may need is not given; the mint heard nothing. */
type HeldBack =
  /** The recipient or the payer has had its share of what the mint bears. */
  | { outcome: 'share_used'; retryAfterMs: number }
  /** The mint began to rest while others had their turn. */
  | { outcome: 'rate_limited'; retryAfterMs: number };

/** A {@link MintClient} that leaves a mint alone when it should: see {@link RequestPacer}. */
export class PacedMintClient {
  readonly #client: Asking;
  readonly #pacer: RequestPacer;
  readonly #budget: RequestBudget;
  readonly #shares: MintShares;
  readonly #turns: PayersTurns;
  readonly #clock: Clock;

  constructor(parts: PacerParts & { client: Asking; shares: MintShares; turns: PayersTurns }) {
    this.#client = parts.client;
    this.#pacer = new RequestPacer(parts);
    this.#budget = parts.budget;
    this.#shares = parts.shares;
    this.#turns = parts.turns;
    this.#clock = parts.clock;
  }

  /** Milliseconds until a route of a mint may be used; 0 is now. */
  waitMs(mintUrl: string, route: MintRoute): number {
    return this.#pacer.waitMs(mintUrl, route);
  }

  /**
   * See {@link MintClient.createQuote}. A mint that is busy for a moment is asked once more.
   *
   * @param payment whose quote it is to be and who asks; each has a share, see {@link MintShares},
   *   and waits for its turn, see {@link PayersTurns}
   */
  async createQuote(
    mintUrl: string,
    payment: Payment,
    params: CreateQuoteParams,
  ): Promise<CreateQuoteAnswer | HeldBack> {
    const retryAfterMs = this.#waitForShareMs(mintUrl, payment);
    if (retryAfterMs > 0) {
      this.#budget.leftToOthers(mintUrl, 'create');
      return { outcome: 'share_used', retryAfterMs };
    }
    const turn = this.#turns.lineUp(mintUrl, payment);
    if (turn === null) {
      return noTurn();
    }
    const startedAt = this.#clock();
    const isSoon = () => this.#clock() - startedAt < SECOND_TRY_WITHIN_MS;
    try {
      const ask = () => this.#askForQuote(mintUrl, payment, params, turn);
      return await this.#pacer.paced(
        mintUrl,
        'create',
        ask,
        (answer) => isBusy(answer) && isSoon(),
      );
    } finally {
      turn.end();
    }
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

  #waitForShareMs(mintUrl: string, payment: Payment): number {
    const now = this.#clock();
    const use = this.#budget.use(mintUrl, 'create', now);
    return this.#shares.waitMs(mintUrl, payment, use, now);
  }

  /** Counts the request while it waits for its turn: many at a time must not overrun a share. */
  async #askForQuote(
    mintUrl: string,
    payment: Payment,
    params: CreateQuoteParams,
    turn: Turn,
  ): Promise<CreateQuoteAnswer | NotSent<HeldBack>> {
    const now = this.#clock();
    const use = this.#budget.use(mintUrl, 'create', now);
    const request = this.#shares.sent(mintUrl, payment, use, now);
    const heldBack = turn.isBegun ? null : await this.#heldBack(mintUrl, turn);
    if (heldBack !== null) {
      this.#shares.withdraw(request);
      return { outcome: 'not_sent', instead: heldBack };
    }
    const answer = await this.#client.createQuote(mintUrl, params);
    if (isOurOwnDoing(answer)) {
      this.#shares.withdraw(request);
    } else {
      this.#shares.record(request, answer, this.#clock());
    }
    return answer;
  }

  /** Waits for the turn; null where the mint may be asked then. */
  async #heldBack(mintUrl: string, turn: Turn): Promise<HeldBack | null> {
    if (!(await turn.begins)) {
      return noTurn();
    }
    const retryAfterMs = this.#pacer.restMs(mintUrl, 'create');
    return retryAfterMs === 0 ? null : { outcome: 'rate_limited', retryAfterMs };
  }
}

function isBusy(answer: CreateQuoteAnswer): boolean {
  return answer.outcome === 'unavailable' && answer.reason === BUSY;
}

function noTurn(): HeldBack {
  // Where the mint answers at all, those who are first in the line have had their turn by then.
  return { outcome: 'share_used', retryAfterMs: PATIENCE_MS };
}
