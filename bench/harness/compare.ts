import type { ComparedRow } from './figure.ts';
import { median, spreadOf } from './statistics.ts';

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

/**
 * The line of a figure that was measured beside its floor: medians, and every run. How it stands to the floor is that
 * of a pair of runs: between two pairs, the machine may change.
 */
export function compare(
  row: Pick<ComparedRow, 'title' | 'unit' | 'toReach' | 'notes' | 'problems'>,
  pairs: readonly Pair<Run>[],
): ComparedRow {
  const ratios = pairs.map((pair) => pair.ours.value / pair.floor.value);
  const isHeldToDistance = row.toReach !== null && 'overFloorAtMost' in row.toReach;
  return {
    ...row,
    ours: median(pairs.map((pair) => pair.ours.value)),
    floor: median(pairs.map((pair) => pair.floor.value)),
    ratio: median(ratios),
    standing: spreadOf(
      isHeldToDistance ? pairs.map((pair) => pair.ours.value - pair.floor.value) : ratios,
    ),
    runs: [...pairs],
  };
}
