/**
 * How long an unpaid invoice counts as open: at most one hour, so that a flood of requests blocks payers no longer.
 * At least ten minutes, even if the invoice expires earlier.
 */
export const OPEN_INVOICE_AGE_LIMITS_MS = { min: 10 * 60_000, max: 60 * 60_000 };

/** Payers may retry soon, because any payment reduces the number of open invoices. */
export const OPEN_INVOICES_RETRY_AFTER_MS = 60_000;

/** Prefixes of addresses whose requests are counted. Each takes about 200 bytes. */
export const MAX_COUNTED_KEYS = 131_072;

/** 32 bits for each prefix length, enough to tell the prefixes of an attack apart. */
export const PREFIX_HASH_HEX_LENGTH = 8;

/** So that tokens of verify URLs (LUD-21) cannot be guessed. */
export const VERIFY_TOKEN_BYTES = 32;

/**
 * A field of an invoice has at most 1023 words of five bits (BOLT 11), which are 639 bytes. Some mints accept longer
 * descriptions, but their Lightning nodes reject them.
 */
export const MAX_DESCRIPTION_BYTES = 639;

/** Limits how long a mint can make this service watch a quote. Counted from now, because the mint chooses all times. */
export const MAX_QUOTE_LIFETIME_SECONDS = 365 * 24 * 60 * 60;
