/**
 * Returns the pause after a number of failures in a row: `initialMs` after the first, and twice as long after each
 * further one, up to `maxMs`.
 *
 * @param failures at least 1
 */
export function computeBackoffMs(
  failures: number,
  { initialMs, maxMs }: { initialMs: number; maxMs: number },
): number {
  return Math.min(initialMs * 2 ** (failures - 1), maxMs);
}
