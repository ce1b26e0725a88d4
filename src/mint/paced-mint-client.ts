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
import { RefusedWords } from './refused-words.ts';
import type { MintRoute, RequestBudget } from './request-budget.ts';
import { isOurOwnDoing, type NotSent, type PacerParts, RequestPacer } from './request-pacer.ts';

/**
 * A Nutshell on SQLite says 500 when it could not lock its database in time, and a cdk-mintd whose node
 * does not bear a description. Creating a quote is tried once more then: one too many costs nobody
 * anything.
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

type AskedForQuote = Promise<CreateQuoteAnswer | NotSent<HeldBack>>;

/** A {@link MintClient} that leaves a mint alone when it should: see {@link RequestPacer}. */
export class PacedMintClient {
  readonly #client: Asking;
  readonly #pacer: RequestPacer;
  readonly #budget: RequestBudget;
  readonly #shares: MintShares;
  readonly #turns: PayersTurns;
  readonly #refusedWords = new RefusedWords();
  readonly #clock: Clock;
  readonly #log: PacerParts['log'];

  constructor(parts: PacerParts & { client: Asking; shares: MintShares; turns: PayersTurns }) {
    this.#client = parts.client;
    this.#pacer = new RequestPacer(parts);
    this.#budget = parts.budget;
    this.#shares = parts.shares;
    this.#turns = parts.turns;
    this.#clock = parts.clock;
    this.#log = parts.log;
  }

  /** Milliseconds until a route of a mint may be used; 0 is now. */
  waitMs(mintUrl: string, route: MintRoute): number {
    return this.#pacer.waitMs(mintUrl, route);
  }

  /**
   * See {@link MintClient.createQuote}. A mint that is busy for a moment is asked once more, and so is
   * one that refuses an order with words for its invoice, then without them: what its Lightning node
   * bears nobody knows, and no payment is to fail for words. What it says at last is what counts, so
   * that one payer's words do not close the mint to others.
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
    const ask = (order: CreateQuoteParams) => this.#askForQuote(mintUrl, payment, order, turn);
    try {
      return wordsOf(params) === '' || this.#isRefusedBefore(mintUrl, params)
        ? await this.#quoteWithoutWords(mintUrl, () => ask(withoutWords(params)))
        : await this.#quoteWithWords(mintUrl, params, ask);
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

  #isRefusedBefore(mintUrl: string, params: CreateQuoteParams): boolean {
    return this.#refusedWords.includes(mintUrl, wordsOf(params), this.#clock());
  }

  #quoteWithoutWords(mintUrl: string, ask: () => AskedForQuote) {
    const startedAt = this.#clock();
    const isSoon = () => this.#clock() - startedAt < SECOND_TRY_WITHIN_MS;
    return this.#pacer.paced(mintUrl, 'create', ask, (answer) => isBusy(answer) && isSoon());
  }

  /** However late its first answer: only the second tells whether words or the mint are to blame. */
  async #quoteWithWords(
    mintUrl: string,
    params: CreateQuoteParams,
    ask: (order: CreateQuoteParams) => AskedForQuote,
  ) {
    let order = params;
    const mayBeForWords = (answer: CreateQuoteAnswer) => {
      const mayBe = isBusy(answer) || answer.outcome === 'refused';
      order = mayBe ? withoutWords(params) : params;
      return mayBe;
    };
    const answer = await this.#pacer.paced(mintUrl, 'create', () => ask(order), mayBeForWords);
    if (answer.outcome === 'created') {
      this.#learn(mintUrl, wordsOf(params), order === params);
    }
    return answer;
  }

  /** One line when words begin to be left out: many payers may be under way. */
  #learn(mintUrl: string, words: string, isTaken: boolean): void {
    const now = this.#clock();
    if (isTaken) {
      this.#refusedWords.taken(mintUrl, words, now);
    } else if (this.#refusedWords.add(mintUrl, words, now)) {
      this.#log.info({ mintUrl }, 'a mint gives quotes without a description, and not with one');
    }
  }

  /** Counts the request while it waits for its turn: many at a time must not overrun a share. */
  async #askForQuote(
    mintUrl: string,
    payment: Payment,
    params: CreateQuoteParams,
    turn: Turn,
  ): AskedForQuote {
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

/** What an invoice is to say; empty where nothing. */
function wordsOf({ description, descriptionHash }: CreateQuoteParams): string {
  return description ?? descriptionHash ?? '';
}

function withoutWords({
  description: _description,
  descriptionHash: _descriptionHash,
  ...plain
}: CreateQuoteParams): CreateQuoteParams {
  return plain;
}

function noTurn(): HeldBack {
  // Where the mint answers at all, those who are first in the line have had their turn by then.
  return { outcome: 'share_used', retryAfterMs: PATIENCE_MS };
}
