// Limits of the requests to mints, and of the resources that mints can use. Users can choose any number of mints.

export const OPERATOR_MINT_LIMITS = {
  /** Quotes in one request (NUT-29). */
  maxPollBatchSize: 1_000,
  maxRequestsPerPoll: 16,
  /** Observations per transaction. Its row locks delay other payments to the same recipients. */
  maxRecordBatchSize: 100,
};

export type MintLimits = typeof OPERATOR_MINT_LIMITS;

export const USER_MINT_LIMITS: MintLimits = {
  // A poll of a hostile mint then costs a few milliseconds.
  maxPollBatchSize: 100,
  maxRequestsPerPoll: 2,
  // Each may be a zap whose receipt goes to 20 relays, which takes about 3 ms.
  maxRecordBatchSize: 20,
};

/** WebSockets to mints that users chose. Each takes a file descriptor and 10 to 200 kB. Other mints are only polled. */
export const MINT_CONNECTION_LIMITS = { max: 200, maxPerSite: 8, shouldShrinkSiteShare: true };

/** WebSockets to one mint. When another is needed, it replaces the oldest. */
export const MAX_CONNECTIONS_PER_MINT = 3;

export const SUBSCRIPTION_TIMING = {
  /** A message waits until the mint has confirmed the previous one, but no longer than this time. */
  maxBatchIntervalMs: 500,
  /** The time between two messages to a mint that has refused some lately. */
  rateLimitedBatchIntervalMs: 2_000,
  initialReconnectDelayMs: 1_000,
  /** Long, because any number of mints may fail forever. Polling notices payments meanwhile. */
  maxReconnectDelayMs: 10 * 60_000,
  /** If no more WebSockets are allowed (MINT_CONNECTION_LIMITS). */
  slotRetryDelayMs: 60_000,
  /** A connection that lasted this long resets the reconnect delay. */
  stableAfterMs: 30_000,
  pingIntervalMs: 30_000,
  responseTimeoutMs: 15_000,
};

export type SubscriptionTiming = typeof SUBSCRIPTION_TIMING;

/** When requests to a route of a mint pause (ADR 34). */
export const RATE_LIMITER_TIMING = {
  /** Longer than a minute: Nutshell's window restarts with every request, also with one that arrives slightly early. */
  windowMs: 61_000,
  /** After the first 429 without `Retry-After`. Twice as long after the second. */
  shortPauseMs: 2_000,
  /** The shortest pause without `Retry-After` at a mint that keeps refusing. It prevents more than a few 429s a minute. */
  minWindowPauseMs: 20_000,
  backoff: { initialMs: 1_000, maxMs: 10_000 },
  /** How long a payer's request waits. Wallets give up after 10 s or more. */
  payerMaxWaitMs: 8_000,
};

/** Concurrent requests on one route of a mint. More of them would only queue there. */
export const MAX_IN_FLIGHT_PER_ROUTE = 16;

/** Mints in caches. Users could otherwise fill the memory by naming mints. */
export const MAX_CACHED_MINTS = 5_000;

/** Clients that wait for a route of a mint. One address group may have half of the places, two a third each. */
export const MAX_WAITING_CLIENTS = 512;

/**
 * Unpaid quotes that a process watches, about 400 MB. Then the operator's mints issue no more invoices. Paid quotes do not
 * count, because a payment costs money.
 */
export const MAX_UNPAID_QUOTES = 500_000;

/** Watched quotes at the mints of one site that users chose. About 4,000 active users of a mint cause that many. */
export const MAX_QUOTES_PER_SITE = 20_000;

/** Watched quotes at all mints that users chose, about 150 MB. When half are used, the limit per site shrinks. */
export const MAX_USER_MINT_QUOTES = 200_000;

/** A watched mint takes about 30 kB of memory. Some hosts offer a mint for each of their users. */
export const MAX_MINTS_PER_SITE = 100;

/** A hostile mint can report every quote as paid, and so fill the disk with payments that cost nothing. */
export const MAX_DAILY_QUOTES_PER_SITE = 50_000;
