import { WINDOW_MS } from './learnt-limit.ts';
import { MinuteLog } from './minute-log.ts';
import type { RequestOutcome } from './route-budget.ts';

/**
 * At a mint whose limit is not known, a recipient may have so many times what the mint bore in a
 * minute: whoever becomes popular waits for a few minutes, and not for good. One network has half of
 * that, so with two it would stay where it is.
 */
const GROWTH_FACTOR = 3;

/**
 * After a refusal that taught no ceiling, a recipient may have half of what led to it at most: with
 * {@link GROWTH_FACTOR}, a sixth is remembered.
 */
const BORNE_SHARE_OF_REFUSED = 1 / (2 * GROWTH_FACTOR);

/** After such a refusal nothing grows for so long, as a ceiling is not tried again (`learnt-limit.ts`). */
const NO_GROWTH_MS = 60 * 60_000;

/** What a mint bears of which no limit is known, whoever asks. Milliseconds since 1970. */
export class Bearing {
  readonly #served = new MinuteLog();
  #minuteFrom = 0;
  #servedInMinute = 0;
  /** The most invoices in a whole minute without a refusal; less after one. */
  #borne = 0;
  #growsAgainAt = 0;

  /**
   * Invoices that a recipient may have in a minute, by what the mint bore.
   *
   * @param time now, or later if the mint is not asked until then
   */
  perRecipient(time: number): number {
    return this.#borneAt(time) * GROWTH_FACTOR;
  }

  /** Tells what came of a request. */
  record({ outcome }: RequestOutcome, now: number): void {
    this.#noticeMinute(now);
    if (outcome === 'rate_limited') {
      const refusedAt = Math.floor(this.#served.count(now) * BORNE_SHARE_OF_REFUSED);
      this.#borne = Math.min(this.#borne, refusedAt);
      this.#servedInMinute = 0;
      this.#growsAgainAt = now + NO_GROWTH_MS;
    } else if (outcome === 'created') {
      this.#served.add(now);
      this.#servedInMinute += 1;
    }
  }

  /** Where the clock was set back, nobody knows how long the minute was. */
  #borneAt(time: number): number {
    const isMinuteOver = time - this.#minuteFrom >= WINDOW_MS;
    return isMinuteOver && time >= this.#growsAgainAt
      ? Math.max(this.#borne, this.#servedInMinute)
      : this.#borne;
  }

  #noticeMinute(now: number): void {
    const passedMs = now - this.#minuteFrom;
    if (passedMs >= 0 && passedMs < WINDOW_MS) {
      return;
    }
    this.#borne = this.#borneAt(now);
    this.#served.noticeSetBack(now);
    this.#growsAgainAt = Math.min(this.#growsAgainAt, now + NO_GROWTH_MS);
    this.#minuteFrom = now;
    this.#servedInMinute = 0;
  }
}
