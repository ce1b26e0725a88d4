/** Longer than any rate limit of the server lasts. Timers cannot count much longer times, and end at once. */
const MAX_RETRY_AFTER_SECONDS = 600;

/** Returns how long the server asks the page to wait. A date, as some proxies send it, counts as the default. */
export function readRetryAfterMs(headers: Headers, defaultSeconds: number): number {
  const text = headers.get('retry-after') ?? '';
  const seconds = /^\d+$/.test(text) ? Number(text) : defaultSeconds;
  return Math.min(seconds, MAX_RETRY_AFTER_SECONDS) * 1_000;
}
