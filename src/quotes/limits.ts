/** How long an unpaid invoice counts as open: at least `min` even if it expires earlier, at most `max`. */
export const OPEN_INVOICE_AGE_LIMITS_MS = { min: 10 * 60_000, max: 60 * 60_000 };

/** Payers may retry soon, because any payment reduces the number of open invoices. */
export const OPEN_INVOICES_RETRY_AFTER_MS = 60_000;

/** Prefixes of addresses whose requests are counted. Each takes about 200 bytes. */
export const MAX_COUNTED_KEYS = 131_072;

/** Limits how long a mint can make this service watch a quote. Counted from now, because the mint chooses all times. */
export const MAX_QUOTE_LIFETIME_SECONDS = 365 * 24 * 60 * 60;

/** The longest field of a BOLT 11 invoice. Some mints accept more, but their Lightning nodes do not. */
export const MAX_DESCRIPTION_BYTES = 639;
