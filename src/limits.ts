/** How long `nutpost trace` shows what happened to a payment, and how long zap requests of issued quotes are kept. */
export const HISTORY_RETENTION_DAYS = 30;
export const HISTORY_RETENTION_MS = HISTORY_RETENTION_DAYS * 24 * 60 * 60_000;
