/** How long a {@link MintSubscription} waits for what. All in milliseconds. */
export interface SubscriptionTiming {
  /** Ids that come within this time go in one message. */
  batchMs: number;
  /** So long after quotes were forgotten, older ones that had no room may take their place. */
  regroupMs: number;
  /**
   * In which one more message, or opening, is earned. To a mint that has refused one, the longest
   * gap between two.
   */
  messageRefillMs: number;
  /** A mint that has refused one counts on until it heard nothing for a minute; and some. */
  quietMs: number;
  /** Delay before the first new attempt; it doubles with each that fails. */
  firstReconnectMs: number;
  longestReconnectMs: number;
  /** After a handshake or a message refused for too many: Nutshell's elastic minute, and some. */
  rateLimitRestMs: number;
  /** After a flood; it doubles with each connection in a row that fails. */
  floodRestMs: number;
  /** Where the process has no socket to spare. */
  noPlaceRestMs: number;
  /** A connection that lasted this long was a good one: delays start from the first again. */
  stableAfterMs: number;
  /** Between pings; a TCP peer that vanished is found out within two. */
  pingIntervalMs: number;
  /** A used-up connection lasts at least this long: each new one makes the mint tell every state. */
  shortestLifeMs: number;
  /** A mint that has not answered a subscription by then does not hear us. */
  answerTimeoutMs: number;
  /** A subscription must have been confirmed so long before it is expected to bring all news. */
  settledAfterMs: number;
  /** What a poll has brought must be on the socket by then, or the socket is silent. */
  silenceGraceMs: number;
  /** For so long the socket of a mint that proved silent again and again is not relied on. */
  distrustMs: number;
  /** Without a confirmed subscription for so long, nobody should rely on the socket any more. */
  uncoveredAfterMs: number;
}

export const DEFAULT_TIMING: Readonly<SubscriptionTiming> = {
  batchMs: 5,
  regroupMs: 30_000,
  messageRefillMs: 5_000,
  quietMs: 61_000,
  firstReconnectMs: 1_000,
  longestReconnectMs: 60_000,
  rateLimitRestMs: 65_000,
  floodRestMs: 60_000,
  noPlaceRestMs: 3 * 60_000,
  stableAfterMs: 30_000,
  pingIntervalMs: 30_000,
  shortestLifeMs: 30_000,
  answerTimeoutMs: 15_000,
  settledAfterMs: 5_000,
  silenceGraceMs: 10_000,
  distrustMs: 60 * 60_000,
  uncoveredAfterMs: 15_000,
};
