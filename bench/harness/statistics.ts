/** What several runs came to. */
export interface Spread {
  median: number;
  lowest: number;
  highest: number;
}

/** The middle of some values, or the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return (at(sorted, Math.floor(middle)) + at(sorted, Math.ceil(middle))) / 2;
}

export function spreadOf(values: readonly number[]): Spread {
  return { median: median(values), lowest: Math.min(...values), highest: Math.max(...values) };
}

/** Of none it is 0. */
export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/**
 * The value that a share of all values does not exceed.
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
    throw new RangeError('there is no value to choose from');
  }
  return value;
}
