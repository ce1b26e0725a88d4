/** A mint may not send us away for longer: its payments would go unnoticed until they expire. */
const MAX_RETRY_AFTER_MS = 60 * 60 * 1000;

/**
 * Reads a `Retry-After` header: seconds or an HTTP date (RFC 9110, 10.2.3).
 *
 * @param now milliseconds since 1970
 * @returns milliseconds from now, at most an hour; null where the header is absent or unreadable
 */
export function parseRetryAfterMs(header: string | undefined, now: number): number | null {
  const text = header?.trim() ?? '';
  const delayMs = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  return Number.isNaN(delayMs)
    ? null
    : Math.min(Math.max(Math.ceil(delayMs), 0), MAX_RETRY_AFTER_MS);
}
