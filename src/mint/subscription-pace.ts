import type { SubscriptionTiming } from './subscription-timing.ts';

/** A mint that floods whenever it can is tried once in this time. */
const LONGEST_FLOOD_REST_MS = 60 * 60_000;

/**
 * How a connection ended.
 *
 * - `cut`: by the mint or on the way, before it was open or later.
 * - `rate_limited`: the mint refused the handshake for too many requests.
 * - `silent`, `unanswered`: given up by us, for it brought no news or no answer.
 * - `flooding`: given up by us, for it brought far too much.
 */
export type ConnectionEnd = 'cut' | 'rate_limited' | 'silent' | 'unanswered' | 'flooding';

/** How long a mint's socket is left alone between two connections: longer with each that fails. */
export class ReconnectPace {
  readonly #timing: SubscriptionTiming;
  /** Connections in a row that did not last. */
  #failures = 0;

  constructor(timing: SubscriptionTiming) {
    this.#timing = timing;
  }

  /**
   * Takes note of a connection's end.
   *
   * @param hasLasted whether it was open long enough to have been a good one
   * @returns milliseconds until the next attempt
   */
  restMs(end: ConnectionEnd, hasLasted: boolean): number {
    const failures = end === 'cut' && hasLasted ? 0 : this.#failures;
    this.#failures = failures + 1;
    const { firstReconnectMs, longestReconnectMs, rateLimitRestMs, floodRestMs } = this.#timing;
    switch (end) {
      case 'rate_limited':
        return rateLimitRestMs;
      case 'flooding':
        return Math.min(floodRestMs * 2 ** failures, LONGEST_FLOOD_REST_MS);
      case 'cut':
      case 'silent':
      case 'unanswered':
        return halfByChance(Math.min(firstReconnectMs * 2 ** failures, longestReconnectMs));
    }
  }
}

/** Many sockets must not come back to a mint at one moment. */
function halfByChance(delayMs: number): number {
  return delayMs * (0.5 + Math.random() / 2);
}
