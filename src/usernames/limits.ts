import type { BackoffLimits } from '../backoff.ts';

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

/** Mints rotate keysets a few times a year. If a mint rejects an old keyset, the list is refreshed anyway. */
export const KEYSETS_MAX_AGE_MS = 5 * 60 * SECOND_MS;

/** Tokens with invented keysets cause refreshes, but Nutshell accepts only 60 requests a minute. */
export const KEYSETS_REFRESH_INTERVAL_MS = 5 * SECOND_MS;

/** One list per mint. The treasury uses a single mint, which the operator rarely changes. */
export const MAX_KEYSET_LISTS = 100;

/** The keys of a keyset take about 10 KB. */
export const MAX_CACHED_KEYSETS = 500;

/** Longer than any request to a mint takes. */
export const PURCHASE_LEASE_MS = 30 * SECOND_MS;

export const RECOVERY_INTERVAL_MS = 2 * SECOND_MS;

/** Purchases that the recovery job resumes concurrently. */
export const RECOVERY_BATCH_SIZE = 10;

/** The longest pause is short, because a buyer may wait for the name. */
export const RECOVERY_BACKOFF: BackoffLimits = { initialMs: 2 * SECOND_MS, maxMs: 60 * SECOND_MS };

/** No request for a swap can still be in transit after this time, even in the queue of a proxy. */
export const MAX_TRANSIT_MS = 120 * SECOND_MS;

/** A mint that fails for so long has a lasting fault. The name should not stay on hold, and the buyer keeps the token. */
export const UNDO_AFTER_MS = DAY_MS;

/** Seconds until a buyer repeats a request that met another one. */
export const REPEAT_AFTER_SECONDS = 3;

/** Proofs in one withdrawal. Wallets and mints reject more than 1000. */
export const MAX_WITHDRAWAL_PROOFS = 500;

/** Withdrawals, or open purchases, that a command lists. */
export const MAX_LISTED = 100;

/** The operator is warned of ecash that expires within this time: long enough to withdraw and redeem it. */
export const EXPIRY_WARNING_MS = 30 * DAY_MS;
