/** Characters of the reason of a block, which the output shows in one line. */
export const MAX_REASON_LENGTH = 500;

/** The output shows a larger number as "more than 1,000". */
export const MAX_COUNTED_OPEN_QUOTES = 1_000;

// doctor

/** A smaller difference between two clocks does no harm. */
export const MAX_OK_CLOCK_SKEW_MS = 3_000;

/** A signature is valid for a minute before and after its time (NIP-98), and wallets' clocks are inexact too. */
export const PROBLEM_CLOCK_SKEW_MS = 15_000;

/** The oldest version that the tests cover. */
export const MIN_POSTGRES_MAJOR_VERSION = 15;

/** Ten for queries, one for LISTEN, and one for migrations. */
export const MAX_CONNECTIONS_PER_PROCESS = 12;

/** Room for a quarter of a million invoices of 2 KB each. */
export const MIN_FREE_MEBIBYTES = 512;

/** With less, SQLite soon cannot extend its WAL file. */
export const FULL_DISK_MEBIBYTES = 16;

/** Checking a file of this size takes half a second, or several seconds on a slow disk. Larger files are not checked. */
export const MAX_INTEGRITY_CHECK_BYTES = 256 * 1024 * 1024;

/** Users can choose any number of mints. */
export const MAX_CHECKED_USER_MINTS = 20;

/** The response of nutpost is below 1 kB, but a response of another server may be long. */
export const MAX_ORIGIN_RESPONSE_BYTES = 1024 * 1024;
