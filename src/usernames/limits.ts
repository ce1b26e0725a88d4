const SECOND_MS = 1_000;
const DAY_MS = 24 * 60 * 60 * SECOND_MS;

/** In characters. A token of 64 proofs takes about 10 KB; DLEQ proofs, which wallets may add, double that. */
export const MAX_TOKEN_LENGTH = 16 * 1024;

/** Decoding and checking a token must cost only a few milliseconds. Usual tokens have fewer than 20 proofs. */
export const MAX_TOKEN_PROOFS = 64;

/** A wallet cannot always pay an exact amount. A higher overpayment is probably a mistake, so it is rejected. */
export const MAX_OVERPAYMENT_PERCENT = 10;

/** How long curve operations, of 0.1 to 4 ms each, run in a row. Longer slices would delay other requests noticeably. */
export const CURVE_SLICE_MS = 2;

/** Renewed before each swap. Longer than any request to a mint takes. */
export const PURCHASE_LEASE_MS = 30 * SECOND_MS;

/** After this time, a swap without a response can no longer reach the mint, not even from the queue of a proxy. */
export const MAX_TRANSIT_MS = 120 * SECOND_MS;

/** When a purchase without a response to its swap is undone: the name is free, and the buyer keeps the token. */
export const UNDO_AFTER_MS = DAY_MS;

/** How many withdrawals or open purchases a command lists. */
export const MAX_LISTED = 100;

/** How long before its expiry ecash is reported. Long enough to withdraw and redeem it. */
export const EXPIRY_WARNING_MS = 30 * DAY_MS;
