const SECOND_MS = 1_000;
const DAY_MS = 24 * 60 * 60 * SECOND_MS;

/** Characters of a token. 64 proofs take about 10 KB, or 20 KB with their DLEQ proofs. */
export const MAX_TOKEN_LENGTH = 16 * 1024;

/** Decoding and checking a token must cost only a few milliseconds. Usual tokens have fewer than 20 proofs. */
export const MAX_TOKEN_PROOFS = 64;

/** A wallet cannot always pay an exact amount. Overpaying by more is probably a mistake, so the token is not taken. */
export const MAX_OVERPAYMENT_PERCENT = 10;

/** A curve operation takes 0.1 to 4 ms. Longer slices of them would delay other requests noticeably. */
export const MAX_SLICE_MS = 2;

/** Longer than any request to a mint takes. */
export const PURCHASE_LEASE_MS = 30 * SECOND_MS;

/** No request for a swap can still be in transit after this time, even in the queue of a proxy. */
export const MAX_TRANSIT_MS = 120 * SECOND_MS;

/** A mint that fails for so long has a lasting fault. The name should not stay on hold, and the buyer keeps the token. */
export const UNDO_AFTER_MS = DAY_MS;

/** Withdrawals, or open purchases, that a command lists. */
export const MAX_LISTED = 100;

/** Long enough to withdraw and redeem the ecash. */
export const EXPIRY_WARNING_MS = 30 * DAY_MS;
