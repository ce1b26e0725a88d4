import type { Logger } from 'pino';
import type { Clock } from '../domain/clock.ts';
import type { MintRoute, RequestBudget } from './request-budget.ts';
import type { RequestOutcome } from './route-budget.ts';

/** Beyond this many silent mints the oldest is forgotten: strangers can name any number. */
const MAX_SILENT = 1_000;

/** Of these, one that was cut off half-way is not as good as one that was never sent. */
const MOVING_MONEY: ReadonlySet<MintRoute> = new Set(['swap', 'melt']);

/** What requests to mints are sent with, so that each is left alone when it should. */
export interface PacerParts {
  budget: RequestBudget;
  clock: Clock;
  log: Pick<Logger, 'warn' | 'info'>;
}

/**
 * Sends requests to mints when they may be sent: while a route rests, or our own bound on requests is
 * reached, the answer is `rate_limited` and the mint hears nothing.
 */
export class RequestPacer {
  readonly #budget: RequestBudget;
  readonly #clock: Clock;
  readonly #log: Pick<Logger, 'warn' | 'info'>;
  /** Routes of mints that gave no usable answer the last time. */
  readonly #silent = new Set<string>();

  constructor({ budget, clock, log }: PacerParts) {
    this.#budget = budget;
    this.#clock = clock;
    this.#log = log;
  }

  /** Milliseconds until a route of a mint may be used; 0 is now. */
  waitMs(mintUrl: string, route: MintRoute): number {
    return this.#budget.waitMs(mintUrl, route, this.#clock());
  }

  /** Milliseconds until a route's rest after a refusal or a failure is over; 0 is now. */
  restMs(mintUrl: string, route: MintRoute): number {
    return this.#budget.restMs(mintUrl, route, this.#clock());
  }

  /**
   * Asks where the mint may be asked now.
   *
   * @param ask it may find, at a later time than now, that the mint is not to be asked after all
   * @param isWorthAnotherTry whether to ask once more at once, after this answer
   */
  async paced<Answer extends PacedAnswer, Instead = never>(
    mintUrl: string,
    route: MintRoute,
    ask: () => Promise<Answer | NotSent<Instead>>,
    isWorthAnotherTry: (answer: Answer) => boolean = () => false,
  ): Promise<Answer | Instead | { outcome: 'rate_limited'; retryAfterMs: number }> {
    const waitMs = this.waitMs(mintUrl, route);
    if (waitMs > 0) {
      return { outcome: 'rate_limited', retryAfterMs: waitMs };
    }
    // Counted before it is answered, so that many at a time do not overrun what the mint allows.
    let request = this.#budget.sent(mintUrl, route, this.#clock());
    let answer = await ask();
    const mayHelp = answer.outcome !== 'not_sent' && isWorthAnotherTry(answer);
    if (mayHelp && this.waitMs(mintUrl, route) === 0) {
      // What comes of the second request stands for both: two failures together are one.
      request = this.#budget.sent(mintUrl, route, this.#clock());
      answer = await ask();
    }
    if (answer.outcome === 'not_sent') {
      this.#budget.withdraw(request);
      return answer.instead;
    }
    if (isOurOwnDoing(answer)) {
      this.#budget.withdraw(request);
      const isPerhapsDone = MOVING_MONEY.has(route) && answer.isUnsent !== true;
      return isPerhapsDone ? answer : { outcome: 'rate_limited', retryAfterMs: 0 };
    }
    this.#budget.record(request, answer, this.#clock());
    this.#tellOfChange(mintUrl, route, answer);
    return answer;
  }

  /** One line when a mint falls silent, and one when it is back. */
  #tellOfChange(mintUrl: string, route: MintRoute, answer: PacedAnswer): void {
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

/** A request that was left undone, and what is answered instead; the mint heard nothing. */
export interface NotSent<Instead> {
  outcome: 'not_sent';
  instead: Instead;
}

/** The answers of the clients, as far as they matter here. */
type PacedAnswer = RequestOutcome & { reason?: string; isUnsent?: true };

/** It says nothing of the mint: our own bound was reached, or we are closing. */
export function isOurOwnDoing({ reason }: PacedAnswer): boolean {
  return reason === 'too many requests in flight' || reason === 'closed';
}
