import type { FigureResult } from '../processes/figure.ts';
import type { Row } from './figure.ts';
import { median, type Spread, spreadOf } from './statistics.ts';
import { whyUnmeasured } from './verdict.ts';

/** What one figure came to on two commits, one right after the other. */
export interface Turn {
  figure: string;
  here: FigureResult;
  there: FigureResult;
}

/** A line of the table of two commits. */
export interface Comparison {
  title: string;
  unit: Row['unit'];
  /** Null where the figure could not be measured on that side. */
  here: Side | null;
  there: Side | null;
  /** Ours here to ours there: the median of all turns, the least and the greatest; null without both. */
  change: Spread | null;
}

/** One commit's part of a line. */
interface Side {
  /** Median of all turns. */
  ours: number;
  /** To its floor, median of all turns; null where it has none. */
  ratio: number | null;
  /** Why it cannot be trusted. */
  problems: string[];
}

/** Sets two commits side by side: each line that either of them has, in the order of the table. */
export function compareTurns(turns: readonly Turn[]): Comparison[] {
  const rows = turns.flatMap(({ here, there }) => [...rowsOf(here), ...rowsOf(there)]);
  const units = new Map(rows.map(({ title, unit }) => [title, unit]));
  return [...units].map(([title, unit]) => {
    const pairs = turns.map(({ here, there }) => ({
      here: rowsOf(here).find((row) => row.title === title),
      there: rowsOf(there).find((row) => row.title === title),
    }));
    return {
      title,
      unit,
      here: sideOf(pairs.flatMap(({ here }) => here ?? [])),
      there: sideOf(pairs.flatMap(({ there }) => there ?? [])),
      change: changeOf(
        pairs.flatMap(({ here, there }) => (here && there ? here.ours / there.ours : [])),
      ),
    };
  });
}

/** Each reason for which a figure was not measured, once; `isNamed` as in {@link whyUnmeasured}. */
export function failuresIn(turns: readonly Turn[], isNamed: boolean): string[] {
  const failures = turns.flatMap(({ figure, here, there }) =>
    Object.entries({ here, there }).flatMap(([side, result]) => {
      const why = whyUnmeasured(result, isNamed);
      return why === null ? [] : [`${figure}, ${side}: ${why}`];
    }),
  );
  return [...new Set(failures)];
}

function rowsOf(result: FigureResult): readonly Row[] {
  return 'rows' in result ? result.rows : [];
}

function sideOf(rows: readonly Row[]): Side | null {
  if (rows.length === 0) {
    return null;
  }
  const ratios = rows.flatMap((row) => ('ratio' in row ? row.ratio : []));
  return {
    ours: median(rows.map(({ ours }) => ours)),
    ratio: ratios.length === 0 ? null : median(ratios),
    problems: [...new Set(rows.flatMap(({ problems }) => problems))],
  };
}

function changeOf(changes: readonly number[]): Comparison['change'] {
  return changes.length === 0 ? null : spreadOf(changes);
}
