import { type Bound, isWithinBound, type ResultRow, ratiosToFloor, type Unit } from './figure.ts';
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

export interface BenchmarkReport {
  rows: ResultRow[];
  /** The figures that could not be measured, each with the reason. */
  failures: string[];
}

/**
 * Returns the exit code of the benchmark.
 *
 * @param mustReach whether a missed bound is a failure
 */
export function exitCodeOf({ rows, failures }: BenchmarkReport, mustReach: boolean): 0 | 1 {
  const isReliable =
    failures.length === 0 && rows.every(({ problems = [] }) => problems.length === 0);
  return isReliable && (!mustReach || rows.every(isWithinBound)) ? 0 : 1;
}

/** Renders the table, with the notes and problems of each row below it. */
export function renderReport({ rows, failures }: BenchmarkReport): string {
  const lines = rows.map(renderCells);
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
    ...new Set(row.problems?.map((problem) => `    PROBLEM: ${problem}`)),
  ]);
  return [
    align(COLUMNS),
    align(widths.map((width) => '-'.repeat(width))),
    ...table,
    ...failures.map((failure) => `NOT MEASURED: ${failure}`),
  ].join('\n');
}

function renderCells(row: ResultRow): string[] {
  const { title, unit, runs, bound } = row;
  const values = runs.map(({ service }) => service);
  const floors = runs.flatMap(({ floor }) => floor ?? []);
  const floorRatios = ratiosToFloor(row);
  return [
    title,
    formatQuantity(median(values), unit),
    floors.length === 0 ? '' : formatQuantity(median(floors), unit),
    floorRatios.length === 0 ? '' : median(floorRatios).toFixed(2),
    floorRatios.length === 0
      ? renderRange(values, (value) => formatQuantity(value, unit))
      : renderRange(floorRatios, (ratio) => ratio.toFixed(2)),
    renderBound(bound, unit),
    isWithinBound(row) ? 'reached' : 'MISSED',
  ];
}

function renderRange(values: readonly number[], render: (value: number) => string): string {
  return `${render(Math.min(...values))} to ${render(Math.max(...values))}`;
}

function renderBound(bound: Bound, unit: Unit): string {
  if ('maxValue' in bound) {
    return `<= ${formatQuantity(bound.maxValue, unit)}`;
  }
  return 'minRatio' in bound
    ? `ratio >= ${bound.minRatio.toFixed(2)}`
    : `ratio <= ${bound.maxRatio.toFixed(2)}`;
}

function formatQuantity(value: number, unit: Unit): string {
  const digits = DECIMALS[unit];
  const number = value.toLocaleString('en', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
  return `${number} ${unit}`;
}
