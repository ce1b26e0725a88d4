import { median } from './statistics.ts';

export interface BenchmarkOptions {
  /** Runs of each figure. The table shows their median. */
  runCount: number;
  /** Length of each run, after its warm-up. */
  secondsPerRun: number;
  /** Quotes in the database of the `deep-list` figure. */
  quoteCount: number;
}

/**
 * Measures one aspect of the service.
 *
 * @param serverUrl the PostgreSQL server, as superuser
 * @returns the rows of the table
 */
export type Benchmark = (serverUrl: string, effort: BenchmarkOptions) => Promise<ResultRow[]>;

export interface ResultRow {
  title: string;
  unit: Unit;
  runs: Measurement[];
  bound: Bound;
  notes?: string[];
  /** Reasons not to trust the figure, such as wrong responses. */
  problems: string[];
}

export type Unit = '/s' | '/CPU s' | 'ms' | 'MB' | 'KB' | 'cores';

export interface Measurement {
  service: number;
  /** The same measurement for the least code that could do the same. Set if the bound is a ratio. */
  floor?: number;
}

/** Bound on the median: a ratio to the floor, or a value in the unit of the row. */
export type Bound = { minRatio: number } | { maxRatio: number } | { maxValue: number };

/** Returns the service's value divided by the floor's, for each run with a floor. */
export function ratios({ runs }: ResultRow): number[] {
  return runs.flatMap(({ service, floor }) => (floor === undefined ? [] : service / floor));
}

/** Whether the median of all runs is within the bound. */
export function isWithinBound(row: ResultRow): boolean {
  const { bound } = row;
  if ('maxValue' in bound) {
    return median(row.runs.map(({ service }) => service)) <= bound.maxValue;
  }
  const ratio = median(ratios(row));
  return 'minRatio' in bound ? ratio >= bound.minRatio : ratio <= bound.maxRatio;
}
