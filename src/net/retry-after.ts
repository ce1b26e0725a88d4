/**
 * Parses seconds or an HTTP date (RFC 9110 section 10.2.3), as a pause of at most `maxMs`. Returns null if the header is
 * absent or malformed.
 */
export function parseRetryAfterMs(
  header: string | undefined,
  nowMs: number,
  maxMs: number,
): number | null {
  const text = header?.trim() ?? '';
  const delayMs = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text) - nowMs;
  return Number.isNaN(delayMs) ? null : Math.min(Math.max(Math.ceil(delayMs), 0), maxMs);
}
