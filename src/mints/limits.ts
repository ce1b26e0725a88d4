// The bounds of what is asked of mints, and of what they can cost. Users can choose any number of mints.

/** Short, because anyone can add mints, and the info of a deleted mint is requested again when it is needed. */
export const UNUSED_MINT_RETENTION_MS = 7 * 24 * 60 * 60_000;

/** What one mint may cost. */
export interface MintLimits {
  /** Quotes in a request (NUT-29). */
  maxPollBatchSize: number;
  maxRequestsPerPoll: number;
  /** Observations per transaction. Its row locks delay other payments to the same recipients. */
  maxRecordBatchSize: number;
}

export const OPERATOR_MINT_LIMITS: MintLimits = {
  maxPollBatchSize: 1_000,
  maxRequestsPerPoll: 16,
  maxRecordBatchSize: 100,
};

export const USER_MINT_LIMITS: MintLimits = {
  // A poll of a hostile mint then costs a few milliseconds.
  maxPollBatchSize: 100,
  maxRequestsPerPoll: 2,
  // Each may be a zap whose receipt goes to 20 relays, which takes about 3 ms.
  maxRecordBatchSize: 20,
};

/**
 * Limits WebSockets to mints that users chose. Each takes a file descriptor and 10 to 200 kB. Further mints are only
 * polled.
 */
export const MINT_CONNECTION_LIMITS = {
  max: 200,
  maxPerSite: 8,
  shouldShrinkSiteShare: true,
} as const;

/** WebSockets to one mint. When another is needed, it replaces the oldest. */
export const MAX_CONNECTIONS_PER_MINT = 3;

/** Subscriptions on one WebSocket: the limit of cdk-mintd. */
export const MAX_SUBSCRIPTIONS_PER_CONNECTION = 100;

/** Nutshell's limit for the lifetime of a connection. Quotes count even after they are unsubscribed. */
export const MAX_QUOTES_PER_CONNECTION = 1_000;

/** Durations in milliseconds. Tests shorten them. */
export const SUBSCRIPTION_TIMING = {
  /** A message waits until the mint has confirmed the previous one, but no longer than this time. */
  maxBatchIntervalMs: 500,
  /** The time between two messages to a mint that has refused some lately. */
  rateLimitedBatchIntervalMs: 2_000,
  /** The delay before the first reconnect. It doubles with each further failure. */
  initialReconnectDelayMs: 1_000,
  /** Long, because any number of mints may fail forever. Polling notices payments meanwhile. */
  maxReconnectDelayMs: 10 * 60_000,
  /** The delay if all connection slots are in use. */
  slotRetryDelayMs: 60_000,
  /** A connection that lasted this long resets the reconnect delay. */
  stableAfterMs: 30_000,
  pingIntervalMs: 30_000,
  responseTimeoutMs: 15_000,
};

export type SubscriptionTiming = typeof SUBSCRIPTION_TIMING;
