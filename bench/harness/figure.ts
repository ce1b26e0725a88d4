import type { DatabaseHost } from './database.ts';

/** How thoroughly to measure. */
export interface Effort {
  /** Of each side, in turn. */
  runs: number;
  /** Of each run, after its warm-up. */
  seconds: number;
  /** Paid at once in the figure of zaps. */
  zaps: number;
}

/** Something that is measured of the service, beside the least that it could cost. */
export interface Figure {
  name: string;
  measure(databases: DatabaseHost, effort: Effort): Promise<Row[]>;
}

/** A line of the table. */
export type Row = ComparedRow | BoundedRow;

/** A figure beside its floor. */
interface ComparedRow extends AnyRow {
  floor: number;
  /** Ours to the floor: of the medians, then the least and the greatest of a pair of runs. */
  ratio: number;
  lowestRatio: number;
  highestRatio: number;
  /** Everything that was measured, run by run. */
  runs: { ours: object; floor: object }[];
}

/** A figure beside what it has to reach. */
export interface BoundedRow extends AnyRow {
  /** Null where nothing is asked of it. */
  atMost: number | null;
  /** Everything that was measured. */
  run: object;
}

interface AnyRow {
  title: string;
  /** Median of all runs. */
  ours: number;
  unit: '/s' | 'ms' | 'MB' | 'cores' | 'x';
  /** Remarks for the reader of the table. */
  notes: string[];
  /** Why the figure cannot be trusted; empty: it can. */
  problems: string[];
}
