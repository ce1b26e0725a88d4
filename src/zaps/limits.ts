import { HISTORY_RETENTION_MS } from '../limits.ts';

export const HOUR_MS = 60 * 60_000;

// Zap requests

/** Escaped. Many relays accept receipts of 16 KiB, which also contain an `a` tag, an invoice (8 KiB) and a signature. */
export const MAX_ZAP_REQUEST_BYTES = 6 * 1024;

/** Usual zap requests have at most ten. */
export const MAX_ZAP_REQUEST_TAGS = 100;

/** Of an `a` tag's value in JSON. Relays commonly reject longer values of single-letter tags. */
export const MAX_COORDINATE_BYTES = 1_024;

/** In either direction. Wallets sign just before. Otherwise, published zap requests could be used again. */
export const MAX_ZAP_REQUEST_AGE_MINUTES = 10;

/** Longer than usual, and short enough for a hundred of them. */
export const MAX_RELAY_URL_LENGTH = 255;

/** Wallets list all relays of their users. Further relays are ignored. */
export const MAX_LISTED_RELAYS = 100;

/** Limits the connections that one zap can cause. */
export const MAX_RELAYS_PER_ZAP = 20;

/** Some relays have separate paths for reading and writing. */
export const MAX_RELAYS_PER_HOST = 2;

// Receipts

/**
 * Older zap requests get no receipt, because the receipt of an earlier payment may have been deleted. The day covers
 * clocks that differ, and zap requests from the future.
 */
export const MAX_RECEIPT_DELAY_MS = HISTORY_RETENTION_MS - 24 * HOUR_MS;

/** How long the service tries to deliver a receipt. */
export const GIVE_UP_AFTER_MS = 48 * HOUR_MS;

/** Between attempts to deliver a receipt. The first pause is short, because the payer waits for the receipt. */
export const RECEIPT_BACKOFF = { initialMs: 10_000, maxMs: 4 * HOUR_MS };

/** Before a failed relay is used again: as long as a restart takes, up to an hour for a dead relay. */
export const RELAY_BACKOFF = { initialMs: 5_000, maxMs: HOUR_MS };

/** Relays limit the events per minute. */
export const MIN_RATE_LIMIT_BACKOFF_MS = 60_000;

/** How often due deliveries are searched: retries, and receipts that a killed process did not deliver. */
export const SCAN_INTERVAL_MS = 1_000;

/** Payers can name any number of relays, and looking at 50,000 of them takes a tenth of a second with SQLite. */
export const MAX_RELAYS_PER_SCAN = 1_000;

/**
 * Relays that receive receipts concurrently. Each needs a socket and half a megabyte. Proven relays are the operator's
 * and those that have accepted a receipt. Payers may name any number of others that never respond.
 */
export const MAX_PROVEN_RELAYS = 128;
export const MAX_UNPROVEN_RELAYS = 32;

/** Payers can invent any number of relay URLs on the same host. */
export const MAX_RELAYS_PER_SITE = 4;

/** Receipts that are sent to a relay at once. At a round trip of 100 ms, 320 receipts per second. */
export const BATCH_SIZE = 32;

/** Longer than a delivery may take. Then receipts that a killed process claimed are due again. */
export const CLAIM_TIMEOUT_MS = 30_000;

/** Then another relay gets the slot. */
export const MAX_DELIVERY_DURATION_MS = 20_000;

// Connections to relays

/** More connections than the dispatcher uses concurrently. Each uses a file descriptor. */
export const MAX_CONNECTIONS = 256;

/** Some relays have a URL per user, and payers can invent URLs of any host. */
export const MAX_CONNECTIONS_PER_HOST = 8;

/** Healthy relays respond to an event within a second. */
export const RESPONSE_TIMEOUT_MS = 5_000;

/** NAT gateways may drop an idle connection silently after a minute. */
export const IDLE_TIMEOUT_MS = 30_000;

/** Relays commonly allow 20 concurrent queries per connection. */
export const MAX_PENDING_QUERIES = 10;

/** The service signs the challenge and sends it back. Usual challenges have a few dozen characters. */
export const MAX_CHALLENGE_LENGTH = 256;

/** The tags of a found event and all their values. Relay lists have some hundred, and verifying more costs too much. */
export const MAX_TAG_ELEMENTS = 2_500;

// Relay lists (NIP-65)

/** Users change their relays a few times a year. */
export const FOUND_LIST_TTL_MS = 60 * 60_000;

/** If no list was found or a relay did not respond: the user may soon publish a list. */
export const INCOMPLETE_LIST_TTL_MS = 60_000;

/** NIP-05 responses contain the relays and wait for the lookup. */
export const LIST_QUERY_TIMEOUT_MS = 2_000;

/** After the first list was found, how long to wait for a newer one from another relay. */
export const NEWER_LIST_GRACE_MS = 300;

/** A full cache uses about ten megabytes if all lists are long. */
export const MAX_CACHED_LISTS = 5_000;

/** NIP-65 recommends two to four. */
export const MAX_WRITE_RELAYS = 10;

/** Each URL takes up to 15 µs to parse. */
export const MAX_PARSED_TAGS = 100;
