/** How long `nutpost trace` can show what happened to a payment, and the zap requests of issued quotes are listed. */
export const HISTORY_RETENTION_DAYS = 30;
export const HISTORY_RETENTION_MS = HISTORY_RETENTION_DAYS * 24 * 60 * 60_000;
