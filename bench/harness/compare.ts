import type { ComparedRow } from './figure.ts';
import { median } from './statistics.ts';

/** One run of ours and one of the floor, in turn. */
export interface Pair<Ours extends Run, Floor extends Run = Ours> {
  ours: Ours;
  floor: Floor;
}

interface Run {
  /** What the figure is about; whatever else was measured is beside it. */
  value: number;
  [measured: string]: unknown;
}

/** The line of a figure that was measured beside its floor: the medians of all runs, and every run. */
export function compare(
  row: Pick<ComparedRow, 'title' | 'unit' | 'toReach' | 'notes' | 'problems'>,
  pairs: readonly Pair<Run>[],
): ComparedRow {
  const ours = median(pairs.map((pair) => pair.ours.value));
  const floor = median(pairs.map((pair) => pair.floor.value));
  const ratios = pairs.map((pair) => pair.ours.value / pair.floor.value);
  return {
    ...row,
    ours,
    floor,
    ratio: ours / floor,
    lowestRatio: Math.min(...ratios),
    highestRatio: Math.max(...ratios),
    runs: [...pairs],
  };
}
