/** Longer than any rate limit of the server. `setTimeout` ends immediately if a value does not fit into 31 bits. */
const MAX_RETRY_AFTER_SECONDS = 600;

/** Returns how long the server asks the page to wait. If the header is missing or a date, returns the default. */
export function readRetryAfterMs(headers: Headers, defaultSeconds: number): number {
  const text = headers.get('retry-after') ?? '';
  const seconds = /^\d+$/.test(text) ? Number(text) : defaultSeconds;
  return Math.min(seconds, MAX_RETRY_AFTER_SECONDS) * 1_000;
}
