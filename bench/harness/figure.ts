import { median } from './statistics.ts';

/** How thoroughly to measure. */
export interface Effort {
  /** Runs of each figure; the table shows their median. */
  runs: number;
  /** Length of each run, after its warm-up. */
  seconds: number;
  /** Quotes in the table of the `deep-list` figure. */
  quotes: number;
}

/**
 * Measures one aspect of the service.
 *
 * @param serverUrl the PostgreSQL server, as superuser
 * @returns the lines of the table
 */
export type Figure = (serverUrl: string, effort: Effort) => Promise<Row[]>;

/** A line of the table. */
export interface Row {
  title: string;
  unit: Unit;
  runs: Run[];
  bound: Bound;
  /** Remarks for the reader of the table. */
  notes?: string[];
  /** Reasons not to trust the figure, such as wrong responses. */
  problems: string[];
}

export type Unit = '/s' | '/CPU s' | 'ms' | 'MB' | 'KB' | 'cores';

/** What one run measured. */
export interface Run {
  nutpost: number;
  /** The floor of the same run: the least code that could do the same. Rows with a ratio have it. */
  floor?: number;
}

/** What the median must reach: a ratio to the floor, or a value in the unit of the row. */
export type Bound = { ratioAtLeast: number } | { ratioAtMost: number } | { atMost: number };

/** Returns nutpost's value divided by the floor's, for each run that has both. */
export function ratios({ runs }: Row): number[] {
  return runs.flatMap(({ nutpost, floor }) => (floor === undefined ? [] : nutpost / floor));
}

/** Tells whether the median of all runs keeps to the bound. */
export function isReached(row: Row): boolean {
  const { bound } = row;
  if ('atMost' in bound) {
    return median(row.runs.map(({ nutpost }) => nutpost)) <= bound.atMost;
  }
  const ratio = median(ratios(row));
  return 'ratioAtLeast' in bound ? ratio >= bound.ratioAtLeast : ratio <= bound.ratioAtMost;
}
