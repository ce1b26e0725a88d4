import type { Comparison } from './against.ts';
import { type ComparedRow, ENOUGH_RUNS, isReached, type Reach, type Row } from './figure.ts';

const COLUMNS = ['figure', 'ours', 'floor', 'to floor', 'of each run', 'to reach', ''];

const COMPARISON_COLUMNS = [
  'figure',
  'there',
  'here',
  'change',
  'of each turn',
  'ratio there',
  'ratio here',
];

/** Of a few milliseconds, hundredths count. */
const SMALL_MS = 10;

/** A line of a table: its cells, and what is said below it. */
interface Line {
  cells: readonly string[];
  below: readonly string[];
}

/** What is said of the machine and of how often each side was measured: stands above a table. */
export function renderHead(machine: string, runs: number): string {
  return runs < ENOUGH_RUNS
    ? `${machine}\nNOTE: runs of each side: ${runs}; a median of fewer than ${ENOUGH_RUNS} says little`
    : machine;
}

/** The table of all figures, the notes of each below its line. */
export function renderTable(rows: readonly Row[]): string {
  return alignColumns(
    COLUMNS,
    rows.map((row) => ({
      cells: [row.title, quantity(row.ours, row.unit), ...besideFloor(row)],
      below: [...row.notes, ...row.problems.map(asProblem)],
    })),
  );
}

/** The table of two commits. What only one of them has stands there alone. */
export function renderComparison(comparisons: readonly Comparison[]): string {
  return alignColumns(
    COMPARISON_COLUMNS,
    comparisons.map(({ title, unit, here, there, change }) => ({
      cells: [
        title,
        there === null ? 'not measured' : quantity(there.ours, unit),
        here === null ? 'not measured' : quantity(here.ours, unit),
        change === null ? '' : percentMore(change.median),
        change === null ? '' : `${percentMore(change.lowest)} to ${percentMore(change.highest)}`,
        there?.ratio?.toFixed(2) ?? '',
        here?.ratio?.toFixed(2) ?? '',
      ],
      below: [
        ...(there?.problems ?? []).map((problem) => asProblem(`there, ${problem}`)),
        ...(here?.problems ?? []).map((problem) => asProblem(`here, ${problem}`)),
      ],
    })),
  );
}

/** A share in words, such as `12 %`. */
export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

function alignColumns(columns: readonly string[], lines: readonly Line[]): string {
  const widths = columns.map((name, column) =>
    Math.max(name.length, ...lines.map(({ cells }) => cells[column]?.length ?? 0)),
  );
  const align = (texts: readonly string[]) =>
    texts
      .map((text, i) => (i === 0 ? text.padEnd(widths[i] ?? 0) : text.padStart(widths[i] ?? 0)))
      .join('   ');
  return [
    align(columns),
    align(widths.map((width) => '-'.repeat(width))),
    ...lines.flatMap(({ cells, below }) => [align(cells), ...below.map((text) => `    ${text}`)]),
  ].join('\n');
}

function asProblem(text: string): string {
  return `PROBLEM: ${text}`;
}

/** The last five cells of a line. */
function besideFloor(row: Row): string[] {
  const verdict = verdictOn(row);
  if ('floor' in row) {
    return [
      quantity(row.floor, row.unit),
      toFloor(row, row.standing.median),
      `${toFloor(row, row.standing.lowest)} to ${toFloor(row, row.standing.highest)}`,
      row.toReach === null ? '' : wanted(row.toReach, row.unit),
      verdict,
    ];
  }
  const { spread, unit, atMost } = row;
  return [
    '',
    '',
    spread === null ? '' : `${quantity(spread.lowest, unit)} to ${quantity(spread.highest, unit)}`,
    atMost === null ? '' : `<= ${quantity(atMost, unit)}`,
    verdict,
  ];
}

/** A value of {@link ComparedRow.standing}. */
function toFloor({ toReach, unit }: ComparedRow, value: number): string {
  return toReach !== null && 'overFloorAtMost' in toReach
    ? `${value < 0 ? '-' : '+'}${quantity(Math.abs(value), unit)}`
    : value.toFixed(2);
}

function verdictOn(row: Row): string {
  const reached = isReached(row);
  if (reached === null) {
    return '';
  }
  return reached ? 'reached' : 'NOT REACHED';
}

function wanted(toReach: Reach, unit: Row['unit']): string {
  if ('ratioAtLeast' in toReach) {
    return `ratio >= ${toReach.ratioAtLeast}`;
  }
  return 'ratioAtMost' in toReach
    ? `ratio <= ${toReach.ratioAtMost}`
    : `floor + ${quantity(toReach.overFloorAtMost, unit)}`;
}

function quantity(value: number, unit: Row['unit']): string {
  switch (unit) {
    case '/s':
      return `${Math.round(value).toLocaleString('en')} /s`;
    case 'MB':
      return `${Math.round(value)} MB`;
    case 'KB':
      return `${value.toFixed(1)} KB`;
    case 'ms':
      return `${value.toFixed(value < SMALL_MS ? 2 : 1)} ms`;
    case 'cores':
    case 'x':
      return `${value.toFixed(2)} ${unit}`;
  }
}

/** Such as `+12 %`: how far a quotient is from 1. */
function percentMore(quotient: number): string {
  const percents = Math.round((quotient - 1) * 100);
  return `${percents > 0 ? '+' : ''}${percents} %`;
}
