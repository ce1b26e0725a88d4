/** Returns the pause after so many failures in a row (at least 1). It doubles with each failure, up to `maxMs`. */
export function computeBackoffMs(
  failures: number,
  { initialMs, maxMs }: { initialMs: number; maxMs: number },
): number {
  return Math.min(initialMs * 2 ** (failures - 1), maxMs);
}
