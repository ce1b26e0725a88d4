import { HISTORY_RETENTION_MS } from '../limits.ts';

export const HOUR_MS = 60 * 60_000;

export const ZAP_REQUEST_LIMITS = {
  /** As a JSON string in its receipt. Many relays accept receipts of 16 KiB, and the invoice takes up to 8 KiB of them. */
  maxBytes: 6 * 1024,
  /** Usual zap requests have at most ten. */
  maxTags: 100,
  /** Of the value of an `a` tag, as JSON. Relays commonly reject longer values of single-letter tags. */
  maxCoordinateBytes: 1_024,
  /** In the past or the future, because published zap requests must not be used again. Wallets sign just before. */
  maxAgeMinutes: 10,
};

export const RECEIPT_RELAY_LIMITS = {
  /** Further relays of a zap request are ignored unread. Some wallets list all relays of their users. */
  maxListed: 100,
  /** Limits the connections that one zap can cause. */
  max: 20,
  /** Some relays have separate paths for reading and writing. */
  maxPerHost: 2,
};

/**
 * For the time from the zap request to the payment. After a longer time, the zap request could have had a receipt that was
 * deleted since. The day covers clocks that differ, and zap requests from the future.
 */
export const MAX_RECEIPT_DELAY_MS = HISTORY_RETENTION_MS - 24 * HOUR_MS;

/** Between attempts to deliver a receipt. The first pause is short, because the payer waits for the receipt. */
export const RECEIPT_BACKOFF = { initialMs: 10_000, maxMs: 4 * HOUR_MS };

/** Before a failed relay is used again: first as long as a restart takes, and up to an hour for a dead relay. */
export const RELAY_BACKOFF = { initialMs: 5_000, maxMs: HOUR_MS };

export const DELIVERY_LIMITS = {
  giveUpAfterMs: 48 * HOUR_MS,
  /** How often the database is searched for retries, and for receipts that a killed process did not deliver. */
  scanIntervalMs: 1_000,
  /** Payers can name any number of relays, and looking at 50,000 of them takes a tenth of a second with SQLite. */
  maxRelaysPerScan: 1_000,
  /** Deliveries to the operator's relays, and those that have accepted a receipt. Each takes half a megabyte. */
  maxProvenRelays: 128,
  /** Deliveries to all other relays. Payers may name any number that never respond. */
  maxUnprovenRelays: 32,
  /** Payers can invent any number of relay URLs on the same host. */
  maxRelaysPerSite: 4,
  /** Receipts that are sent to a relay at once. At a round trip of 100 ms, 320 receipts per second. */
  batchSize: 32,
  /** When receipts that a killed process had claimed are due again. Longer than a delivery takes. */
  claimTimeoutMs: 30_000,
  /** When a relay with many due receipts gives its slot to another relay. */
  maxDurationMs: 20_000,
};

/** For the Nostr profiles of recipients (NIP-01, NIP-05). */
export const PROFILE_LIMITS = {
  /** Users change their profiles a few times a year, and those without a profile may publish one. */
  ttlMs: HOUR_MS,
  /** If a relay did not respond. */
  retryMs: 5 * 60_000,
  /** A full cache uses about two megabytes. */
  maxCached: 5_000,
  /** Any visitor can cause a fetch by opening the page of any key. 60 a minute, of which few are in progress at once. */
  perWindow: 10,
  windowMs: 10_000,
  /** In addition to the operator's relays. NIP-65 recommends two to four. */
  maxWriteRelays: 3,
  /** In UTF-16 code units. Usual profiles are below 2,000. */
  maxContentLength: 16 * 1024,
  /** In UTF-16 code units. Longer names and identifiers do not fit into a line. */
  maxNameLength: 50,
  /** Some hosts return all their names, whichever was asked for. */
  maxIdentifierBytes: 256 * 1024,
};
