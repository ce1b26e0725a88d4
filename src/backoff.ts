/** Returns the pause after one or more failures in a row. It doubles with each failure, up to `maxMs`. */
export function computeBackoffMs(
  failures: number,
  { initialMs, maxMs }: { initialMs: number; maxMs: number },
): number {
  return Math.min(initialMs * 2 ** (failures - 1), maxMs);
}
