/** A mint may wait for its Lightning node. A page that waits longer looks broken. */
export const MINT_TIMEOUT_MS = 15_000;

/** More proofs are exchanged for fewer before they become a token, because a long token is hard to scan and to send. */
export const MAX_TOKEN_PROOFS = 30;

/** Inputs of a request. More proofs are exchanged for fewer when they are collected. Nutshell and cdk refuse over 1,000. */
export const MAX_REQUEST_PROOFS = 500;

/** Characters of a token in one QR code. Phones have difficulties with denser codes on a screen. */
export const MAX_STATIC_QR_LENGTH = 800;

/** Bytes in each part of an animated QR code. The code stays coarse enough for old cameras. */
export const QR_PART_BYTES = 150;

/** A mint’s signatures of {@link MAX_REQUEST_PROOFS} have about 250 KB, and a page of the user’s payments less than 1 MB. */
export const MAX_RESPONSE_BYTES = 4_194_304;

/** For mints that do not say when an invoice expires (BOLT 11). */
export const DEFAULT_INVOICE_EXPIRY_MS = 3_600_000;

/** How long the page looks an expired invoice up, because a payment that was under way may still arrive. */
export const LATE_PAYMENT_MS = 86_400_000;
