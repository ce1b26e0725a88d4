import { type Bound, isReached, type Row, ratios, type Unit } from './figure.ts';
import { median } from './statistics.ts';

const COLUMNS = ['figure', 'nutpost', 'floor', 'ratio', 'each run', 'bound', ''];

const DECIMALS: Record<Unit, number> = {
  '/s': 0,
  '/CPU s': 0,
  ms: 1,
  MB: 0,
  KB: 1,
  cores: 2,
};

/** Everything that a run of the bench measured, or failed to. */
export interface Outcome {
  rows: Row[];
  /** Figures that could not be measured, with the reason. */
  failures: string[];
}

/**
 * Returns the exit code of the bench.
 *
 * @param mustReach whether a missed bound is a failure
 */
export function exitCodeOf({ rows, failures }: Outcome, mustReach: boolean): 0 | 1 {
  const isTrusted = failures.length === 0 && rows.every(({ problems }) => problems.length === 0);
  return isTrusted && (!mustReach || rows.every(isReached)) ? 0 : 1;
}

/** Renders the table; notes and problems follow their row. */
export function renderReport({ rows, failures }: Outcome): string {
  const lines = rows.map(cellsOf);
  const widths = COLUMNS.map((_, column) =>
    Math.max(...[COLUMNS, ...lines].map((cells) => cells[column]?.length ?? 0)),
  );
  const align = (cells: readonly string[]) =>
    cells
      .map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0)))
      .join('  ');
  const table = rows.flatMap((row, i) => [
    align(lines[i] ?? []),
    ...(row.notes ?? []).map((note) => `    ${note}`),
    ...new Set(row.problems.map((problem) => `    PROBLEM: ${problem}`)),
  ]);
  return [
    align(COLUMNS),
    align(widths.map((width) => '-'.repeat(width))),
    ...table,
    ...failures.map((failure) => `NOT MEASURED: ${failure}`),
  ].join('\n');
}

function cellsOf(row: Row): string[] {
  const { title, unit, runs, bound } = row;
  const values = runs.map(({ nutpost }) => nutpost);
  const floors = runs.flatMap(({ floor }) => floor ?? []);
  const ofFloor = ratios(row);
  return [
    title,
    quantity(median(values), unit),
    floors.length === 0 ? '' : quantity(median(floors), unit),
    ofFloor.length === 0 ? '' : median(ofFloor).toFixed(2),
    ofFloor.length === 0
      ? range(values, (value) => quantity(value, unit))
      : range(ofFloor, (ratio) => ratio.toFixed(2)),
    renderBound(bound, unit),
    isReached(row) ? 'reached' : 'MISSED',
  ];
}

function range(values: readonly number[], render: (value: number) => string): string {
  return `${render(Math.min(...values))} to ${render(Math.max(...values))}`;
}

function renderBound(bound: Bound, unit: Unit): string {
  if ('atMost' in bound) {
    return `<= ${quantity(bound.atMost, unit)}`;
  }
  return 'ratioAtLeast' in bound
    ? `ratio >= ${bound.ratioAtLeast}`
    : `ratio <= ${bound.ratioAtMost}`;
}

function quantity(value: number, unit: Unit): string {
  const digits = DECIMALS[unit];
  const number = value.toLocaleString('en', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
  return `${number} ${unit}`;
}
