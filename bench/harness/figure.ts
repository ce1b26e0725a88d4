import { median } from './statistics.ts';

export interface BenchmarkOptions {
  /** The number of runs of each figure. The table shows the median of the runs. */
  runCount: number;
  /** The length of each run, without its warm-up. */
  secondsPerRun: number;
  /** The length of the warm-up, in which V8 compiles the hot code. */
  warmUpSeconds: number;
  /** The number of quotes in the database of the `deep-list` figure. */
  quoteCount: number;
}

/**
 * Measures one aspect of the service.
 *
 * @param serverUrl a PostgreSQL server, with a superuser in the URL
 * @returns rows for the table of results
 */
export type Benchmark = (serverUrl: string, options: BenchmarkOptions) => Promise<ResultRow[]>;

export interface ResultRow {
  title: string;
  unit: Unit;
  runs: Measurement[];
  bound: Bound;
  notes?: string[];
  /** Reasons not to trust the figure, such as wrong responses. */
  problems?: string[];
}

export type Unit = '/s' | '/CPU s' | 'ms' | 'MB' | 'KB' | 'cores';

export interface Measurement {
  service: number;
  /** The floor: the same measurement of the least code that could do the same work. Set if the bound is a ratio. */
  floor?: number;
}

/** The bound on the median of the runs: a ratio to the floor, or a value in the unit of the row. */
export type Bound = { minRatio: number } | { maxRatio: number } | { maxValue: number };

/** Returns the service's value divided by the floor's, for each run with a floor. */
export function ratiosToFloor({ runs }: ResultRow): number[] {
  return runs.flatMap(({ service, floor }) => (floor === undefined ? [] : service / floor));
}

/** Returns whether the median of all runs is within the bound. */
export function isWithinBound(row: ResultRow): boolean {
  const { bound } = row;
  if ('maxValue' in bound) {
    return median(row.runs.map(({ service }) => service)) <= bound.maxValue;
  }
  const ratio = median(ratiosToFloor(row));
  return 'minRatio' in bound ? ratio >= bound.minRatio : ratio <= bound.maxRatio;
}

/** Loosens the bound of a row if it is a ratio, which depends on how busy the machine is: 0.7 accepts 0.7 of it. */
export function loosenBound(row: ResultRow, factor: number): ResultRow {
  const { bound } = row;
  if ('minRatio' in bound) {
    return { ...row, bound: { minRatio: bound.minRatio * factor } };
  }
  return 'maxRatio' in bound ? { ...row, bound: { maxRatio: bound.maxRatio / factor } } : row;
}
