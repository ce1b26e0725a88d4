/**
 * How many blank outputs it takes to give back any amount up to this one, each of a power of two
 * (NUT-08).
 */
export function blankCount(mostSat: number): number {
  return mostSat === 0 ? 0 : Math.max(Math.ceil(Math.log2(mostSat)), 1);
}
