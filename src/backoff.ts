/** The first and the longest pause of an exponential backoff. */
export interface BackoffLimits {
  initialMs: number;
  maxMs: number;
}

/**
 * Returns the pause after the given number of failures in a row: `initialMs` after the first, twice as long after each
 * further one.
 *
 * @param failures at least 1
 */
export function computeBackoffMs(failures: number, { initialMs, maxMs }: BackoffLimits): number {
  return Math.min(initialMs * 2 ** (failures - 1), maxMs);
}
