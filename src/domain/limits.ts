/** The bounds that more than one module speaks of, each with its reason. */

/** Longest mint quote id that is taken from a mint: opaque text, ids in use have 36 to 43 characters. */
export const MAX_QUOTE_ID_LENGTH = 256;

/** Rows on one page of the quote list, whatever was asked for (spec.md section 8). */
export const MAX_PAGE_SIZE = 50;

/** Most that a client may ask for as a page size without being wrong (spec.md section 8). */
export const MAX_REQUESTED_PAGE_SIZE = 1000;

/** An authorized request's JWT lives this long (spec.md section 8). */
export const JWT_LIFETIME_SECONDS = 30 * 60;

/** How far a NIP-98 event's `created_at` may be from our clock, either way (NIP-98). */
export const NIP98_TOLERANCE_SECONDS = 60;

/** A socket that has not authenticated by then is closed (spec.md section 6). */
export const SOCKET_AUTH_DEADLINE_MS = 15_000;

/** Shortest and longest purchasable name (spec.md section 4.6; the upper end is ours). */
export const MIN_USERNAME_LENGTH = 3;
export const MAX_USERNAME_LENGTH = 64;
