import { HISTORY_RETENTION_MS } from '../limits.ts';

export const HOUR_MS = 60 * 60_000;

export const ZAP_REQUEST_LIMITS = {
  /** Escaped. Many relays accept receipts of 16 KiB, which also contain an `a` tag, an invoice (8 KiB) and a signature. */
  maxBytes: 6 * 1024,
  /** Usual zap requests have at most ten. */
  maxTags: 100,
  /** Of an `a` tag's value in JSON. Relays commonly reject longer values of single-letter tags. */
  maxCoordinateBytes: 1_024,
  /** In either direction. Wallets sign just before. Otherwise, published zap requests could be used again. */
  maxAgeMinutes: 10,
};

export const RECEIPT_RELAY_LIMITS = {
  /** Longer than usual, and short enough for a hundred of them. */
  maxUrlLength: 255,
  /** Wallets list all relays of their users. Further relays are ignored. */
  maxListed: 100,
  /** Limits the connections that one zap can cause. */
  max: 20,
  /** Some relays have separate paths for reading and writing. */
  maxPerHost: 2,
};

/**
 * Older zap requests get no receipt, because the receipt of an earlier payment may have been deleted. The day covers
 * clocks that differ, and zap requests from the future.
 */
export const MAX_RECEIPT_DELAY_MS = HISTORY_RETENTION_MS - 24 * HOUR_MS;

/** Between attempts to deliver a receipt. The first pause is short, because the payer waits for the receipt. */
export const RECEIPT_BACKOFF = { initialMs: 10_000, maxMs: 4 * HOUR_MS };

/** Before a failed relay is used again: as long as a restart takes, up to an hour for a dead relay. */
export const RELAY_BACKOFF = { initialMs: 5_000, maxMs: HOUR_MS };

export const DELIVERY_LIMITS = {
  giveUpAfterMs: 48 * HOUR_MS,
  /** How often due deliveries are searched: retries, and receipts that a killed process did not deliver. */
  scanIntervalMs: 1_000,
  /** Payers can name any number of relays, and looking at 50,000 of them takes a tenth of a second with SQLite. */
  maxRelaysPerScan: 1_000,
  /**
   * Relays that receive receipts concurrently. Each needs a socket and half a megabyte. Proven relays are the
   * operator's and those that have accepted a receipt. Payers may name any number of others that never respond.
   */
  maxProvenRelays: 128,
  maxUnprovenRelays: 32,
  /** Payers can invent any number of relay URLs on the same host. */
  maxRelaysPerSite: 4,
  /** Receipts that are sent to a relay at once. At a round trip of 100 ms, 320 receipts per second. */
  batchSize: 32,
  /** Longer than a delivery may take. Then receipts that a killed process claimed are due again. */
  claimTimeoutMs: 30_000,
  /** Then another relay gets the slot. */
  maxDurationMs: 20_000,
};

export const RELAY_CONNECTION_LIMITS = {
  /** More connections than the dispatcher uses concurrently. Each uses a file descriptor. */
  max: 256,
  /** Some relays have a URL per user, and payers can invent URLs of any host. */
  maxPerHost: 8,
  /** Healthy relays respond to an event within a second. */
  responseTimeoutMs: 5_000,
  /** NAT gateways may drop an idle connection silently after a minute. */
  idleTimeoutMs: 30_000,
  /** Relays commonly allow 20 concurrent queries per connection. */
  maxPendingQueries: 10,
  /** The service signs the challenge and sends it back. Usual challenges have a few dozen characters. */
  maxChallengeLength: 256,
  /** The tags of a found event and all their values. Relay lists have some hundred, and verifying more costs too much. */
  maxTagElements: 2_500,
};

/** For NIP-65. */
export const RELAY_LIST_LIMITS = {
  /** Users change their relays a few times a year. */
  foundTtlMs: HOUR_MS,
  /** If no list was found or a relay did not respond: the user may soon publish a list. */
  incompleteTtlMs: 60_000,
  /** NIP-05 responses contain the relays and wait for the lookup. */
  queryTimeoutMs: 2_000,
  /** After the first list was found, how long to wait for a newer one from another relay. */
  newerListGraceMs: 300,
  /** A full cache uses about ten megabytes if all lists are long. */
  maxCached: 5_000,
  /** NIP-65 recommends two to four. */
  maxWriteRelays: 10,
  /** Each URL takes up to 15 µs to parse. */
  maxParsedTags: 100,
};
