/** The middle value, or the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return (at(sorted, Math.floor(middle)) + at(sorted, Math.ceil(middle))) / 2;
}

/**
 * Returns the value that the given share of all values does not exceed.
 *
 * @param share such as 0.99
 */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return at(sorted, Math.max(0, Math.ceil(sorted.length * share) - 1));
}

function at(values: readonly number[], index: number): number {
  const value = values[index];
  if (value === undefined) {
    throw new RangeError('a median or percentile needs at least one value');
  }
  return value;
}
