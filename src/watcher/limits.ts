const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;

/** The time between two polls of a mint. So payments that a new subscription misses are found within four seconds. */
export const MIN_POLL_INTERVAL_MS = SECOND_MS;
/** The time between two polls of a mint that has more due quotes than a poll contains. */
export const BACKLOG_POLL_INTERVAL_MS = 250;
/** A batch also contains quotes that are due within this time, because the mint may refuse the next batch. */
export const LOOK_AHEAD_MS = 2 * SECOND_MS;
/** How many quotes are read alone at the same time, and how many in one poll besides a batch. */
export const SINGLE_READ_CONCURRENCY = 4;
/** How long a mint that does not support batches, or keeps failing them, gets none. It may be upgraded or repaired. */
export const BATCH_RETRY_DELAY_MS = 15 * MINUTE_MS;

/** From a subscription to a poll, because Nutshell loses payments that arrive while it registers a subscription. */
export const SUBSCRIPTION_CHECK_DELAY_MS = 2 * SECOND_MS;
/** How many quotes may wait to be subscribed. Fewer than a connection allows, which leaves room for new quotes. */
export const MAX_UNSUBSCRIBED_QUOTES = 750;
/** Above this number of watched quotes, a mint's expired quotes are watched for a shorter time. Each takes about 0.5 kB. */
export const CROWDED_QUOTES = 20_000;
/** Reports of a quote that are recorded without a pause: all that an honest mint sends (INFLIGHT and PAID, twice). */
export const REPORTS_WITHOUT_PAUSE = 4;
/** How long further reports of a quote are ignored, because each costs a transaction. */
export const REPORT_PAUSE = { initialMs: 10 * MINUTE_MS, maxMs: 60 * MINUTE_MS };

/** How long after its expiry a quote must be found paid to count as issued later. The clocks of mints differ from ours. */
export const EXPIRY_TOLERANCE_MS = 2 * MINUTE_MS;

/** How often leases are balanced and mints polled. */
export const SCAN_INTERVAL_MS = SECOND_MS;
/** How often new quotes are read from the database, in case an announcement was lost, and watched quotes counted. */
export const RESCAN_INTERVAL_MS = 15 * SECOND_MS;
/** How many earlier rows each rescan reads again, because transactions do not commit in the order of the row ids. */
export const RESCAN_OVERLAP_ROWS = 1_000;
/** Quotes read per query. Adding them to memory takes about 2 ms. */
export const PAGE_SIZE = 1_000;
/** How long a mint without watched quotes keeps its watcher and WebSocket. */
export const IDLE_MINT_TIMEOUT_MS = 10 * MINUTE_MS;

/** Transactions at a time. SQLite queues them, so hostile mints could delay the payments of others by half a minute. */
export const USER_MINT_RECORDINGS = { max: 2, maxPerSite: 1 };
/** Polls per scan. A poll with its TLS connection takes about 3 ms of CPU time, so they use about 2 % of a core. */
export const USER_MINT_POLLS = { max: 6, maxPerSite: 3 };
