/** How long history is kept: long enough for whoever asks where a payment is. */
export const HISTORY_DAYS = 30;
export const HISTORY_MS = HISTORY_DAYS * 24 * 60 * 60_000;
