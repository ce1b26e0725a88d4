import type { DatabaseHost } from './database.ts';
import type { Spread } from './statistics.ts';

/** How thoroughly to measure. */
export interface Effort {
  /** Of each side, in turn. */
  runs: number;
  /** Of each run, after its warm-up. */
  seconds: number;
  /** Paid at once in the figure of zaps. */
  zaps: number;
  /** In the table, in the figure of deep lists. */
  quotes: number;
}

/** Of fewer, the median is what the machine was like in one moment, or between two. */
export const ENOUGH_RUNS = 3;

/**
 * How often each side runs where a figure is the moment's as much as the code's, as of what waits for a disk that others
 * use too, or has more at work than there are cores: of few runs, the median would be chance.
 */
export function runsOfTheUnsteady({ runs }: Effort): number {
  return 2 * runs - 1;
}

/** Something that is measured of the service, beside the least that it could cost. */
export interface Figure {
  measure(databases: DatabaseHost, effort: Effort): Promise<Row[]>;
}

/** A line of the table. */
export type Row = ComparedRow | BoundedRow;

/** A figure beside its floor. */
export interface ComparedRow extends AnyRow {
  floor: number;
  /** Null where nothing is asked of it. */
  toReach: Reach | null;
  /** Ours to the floor, of a pair of runs: the median. */
  ratio: number;
  /** Of each pair of runs, how ours stands to its floor: how far it is over it where that is asked, else the ratio. */
  standing: Spread;
  /** Everything that was measured, run by run. */
  runs: { ours: object; floor: object }[];
}

/** What a figure has to be beside its floor; `overFloorAtMost` in its own unit. */
export type Reach =
  | { ratioAtLeast: number }
  | { ratioAtMost: number }
  | { overFloorAtMost: number };

/** A figure beside what it has to reach. */
export interface BoundedRow extends AnyRow {
  /** Null where nothing is asked of it. */
  atMost: number | null;
  /** Of all runs; null where it is measured once, however many are asked for. */
  spread: Spread | null;
  /** Everything that was measured. */
  run: object;
}

interface AnyRow {
  title: string;
  /** Median of all runs. */
  ours: number;
  unit: '/s' | 'ms' | 'MB' | 'KB' | 'cores' | 'x';
  /** Remarks for the reader of the table. */
  notes: string[];
  /** Why the figure cannot be trusted; empty: it can. */
  problems: string[];
}

/** Whether a figure is as it has to be; null where nothing is asked of it. */
export function isReached(row: Row): boolean | null {
  if (!('floor' in row)) {
    return row.atMost === null ? null : row.ours <= row.atMost;
  }
  const { toReach, standing } = row;
  if (toReach === null) {
    return null;
  }
  if ('ratioAtLeast' in toReach) {
    return standing.median >= toReach.ratioAtLeast;
  }
  return 'ratioAtMost' in toReach
    ? standing.median <= toReach.ratioAtMost
    : standing.median <= toReach.overFloorAtMost;
}
