import { HISTORY_RETENTION_MS } from '../limits.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;

// Zap requests

/**
 * The size of the zap request in its receipt, where it is a JSON string with escaped quotation marks. Usual zap
 * requests have 600 bytes, or 4,000 with a hundred relays. Many relays accept receipts of at most 16 KiB. These have
 * room for the zap request, an `a` tag of 1 KiB, the longest invoice (8 KiB) and 700 bytes of ids, keys and the
 * signature.
 */
export const MAX_ZAP_REQUEST_BYTES = 6 * 1024;

/** Usual zap requests have at most ten tags. */
export const MAX_ZAP_REQUEST_TAGS = 100;

/** The size of an `a` tag's value in JSON. Relays commonly reject longer values of single-letter tags. */
export const MAX_COORDINATE_BYTES = 1_024;

/**
 * How old a zap request may be when the invoice is requested, or how far in the future. Wallets sign it just before.
 * Otherwise anyone could use published zap requests again.
 */
export const MAX_ZAP_REQUEST_AGE_MINUTES = 10;

/** At how many braces a zap request may end, if its ampersands are not escaped. Each attempt to parse it takes time. */
export const MAX_CLOSING_BRACES = 4;

// Relays of zap requests

/** Longer than any usual relay URL. Limited, because a zap request can list a hundred URLs. */
export const MAX_RELAY_URL_LENGTH = 255;

/** Wallets list all relays of their users. Further relays are ignored. */
export const MAX_LISTED_RELAYS = 100;

/** Limits the connections that one zap can cause. */
export const MAX_RELAYS_PER_ZAP = 20;

/** Two, because some relays have separate paths for reading and writing. */
export const MAX_RELAYS_PER_HOST = 2;

// Receipts

/** Other work may run after this many signatures, each of which takes up to half a millisecond. */
export const SIGNATURES_BEFORE_YIELD = 10;

/**
 * Older zap requests get no receipt, because the receipt of an earlier payment may have been deleted. The day covers
 * clocks that differ, and zap requests from the future.
 */
export const MAX_RECEIPT_DELAY_MS = HISTORY_RETENTION_MS - 24 * HOUR_MS;

// Deliveries

/** How long the service tries to deliver a receipt. */
export const GIVE_UP_AFTER_MS = 48 * HOUR_MS;

/** Pauses between attempts to deliver a receipt. The first is short, because the payer waits for the receipt. */
export const RECEIPT_BACKOFF = { initialMs: 10 * SECOND_MS, maxMs: 4 * HOUR_MS };

/** Pauses before a failed relay is used again: seconds, as a relay needs to restart, up to an hour for a dead one. */
export const RELAY_BACKOFF = { initialMs: 5 * SECOND_MS, maxMs: HOUR_MS };

/** Relays limit the events per minute. */
export const MIN_RATE_LIMIT_BACKOFF_MS = MINUTE_MS;

/** How often due deliveries are searched: retries, and receipts that a killed process did not deliver. */
export const SCAN_INTERVAL_MS = SECOND_MS;

/**
 * How many relays with open deliveries a scan looks at. The next scan continues with the others. Payers can name any
 * number of relays, and looking at 50,000 of them takes a tenth of a second with SQLite.
 */
export const MAX_RELAYS_PER_SCAN = 1_000;

/**
 * How many relays receive receipts concurrently. Each needs a socket and half a megabyte for receipts. Proven relays
 * are the operator's relays and those that have accepted a receipt before. They have their own limit, because payers
 * may name any number of relays that never respond.
 */
export const MAX_PROVEN_RELAYS = 128;
export const MAX_UNPROVEN_RELAYS = 32;

/** Payers can invent any number of relay URLs on the same host. */
export const MAX_RELAYS_PER_SITE = 4;

/** Receipts that are sent to a relay at once. At a round trip of 100 ms, 320 receipts per second. */
export const BATCH_SIZE = 32;

/** Longer than a delivery may take. After this time, receipts that a killed process claimed are due again. */
export const CLAIM_TIMEOUT_MS = 30 * SECOND_MS;

/** After this time, a delivery ends, so that another relay gets the slot. */
export const MAX_DELIVERY_DURATION_MS = 20 * SECOND_MS;

/** At shutdown, how long to wait for the responses to receipts that were sent. */
export const SHUTDOWN_GRACE_MS = 500;

// Connections to relays

/** More connections than the dispatcher uses concurrently. Each uses a file descriptor. */
export const MAX_CONNECTIONS = 256;

/** Some relays have a URL per user, and payers can invent URLs of any host. */
export const MAX_CONNECTIONS_PER_HOST = 8;

/** How long to wait for the response to an event. Healthy relays respond within a second. */
export const RESPONSE_TIMEOUT_MS = 5 * SECOND_MS;

/** When to close an idle connection. NAT gateways may drop it silently after a minute. */
export const IDLE_TIMEOUT_MS = 30 * SECOND_MS;

/** Relays commonly allow 20 concurrent queries per connection. */
export const MAX_PENDING_QUERIES = 10;

/** The service signs the challenge and sends it back. Usual challenges have a few dozen characters. */
export const MAX_CHALLENGE_LENGTH = 256;

/** The tags of a found event and all their values. Relay lists have at most some hundred, and verifying more costs too much. */
export const MAX_TAG_ELEMENTS = 2_500;

// Relay lists (NIP-65)

/** How long a relay list is cached. Users change their relays a few times a year. */
export const FOUND_LIST_TTL_MS = 60 * MINUTE_MS;

/** Used if no list was found or not all relays responded. Short, because the user may soon publish a list. */
export const INCOMPLETE_LIST_TTL_MS = MINUTE_MS;

/** Short, because NIP-05 responses contain the relays and wait for the lookup. */
export const LIST_QUERY_TIMEOUT_MS = 2 * SECOND_MS;

/** After the first list was found, how long to wait for a newer list from another relay. */
export const NEWER_LIST_GRACE_MS = 300;

/** A full cache uses about ten megabytes if all lists are long. */
export const MAX_CACHED_LISTS = 5_000;

/** NIP-65 recommends two to four. */
export const MAX_WRITE_RELAYS = 10;

/** The tags of a relay list that are parsed. Each URL takes up to 15 µs. */
export const MAX_PARSED_TAGS = 100;
