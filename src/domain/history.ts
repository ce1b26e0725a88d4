/** How long history is kept: long enough for whoever asks where a payment is. */
export const HISTORY_DAYS = 30;
