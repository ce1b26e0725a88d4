export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return (valueAt(sorted, Math.floor(middle)) + valueAt(sorted, Math.ceil(middle))) / 2;
}

/**
 * Returns a percentile, by the nearest-rank method.
 *
 * @param share the percentile as a fraction, such as 0.99
 */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return valueAt(sorted, Math.max(0, Math.ceil(sorted.length * share) - 1));
}

function valueAt(values: readonly number[], index: number): number {
  const value = values[index];
  if (value === undefined) {
    throw new RangeError('a median or percentile needs at least one value');
  }
  return value;
}
