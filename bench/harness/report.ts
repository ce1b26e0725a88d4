import type { Row } from './figure.ts';

const COLUMNS = ['figure', 'ours', 'floor', 'ratio', 'of each pair of runs'];

/** The table of all figures, the notes of each below its line. */
export function renderTable(rows: readonly Row[]): string {
  const cells = rows.map((row) => [
    row.title,
    quantity(row.ours, row.unit),
    quantity(row.floor, row.unit),
    row.ratio.toFixed(2),
    `${row.lowestRatio.toFixed(2)} to ${row.highestRatio.toFixed(2)}`,
  ]);
  const widths = COLUMNS.map((name, column) =>
    Math.max(name.length, ...cells.map((line) => line[column]?.length ?? 0)),
  );
  const line = (texts: readonly string[]) =>
    texts
      .map((text, i) => (i === 0 ? text.padEnd(widths[i] ?? 0) : text.padStart(widths[i] ?? 0)))
      .join('   ');
  return [
    line(COLUMNS),
    line(widths.map((width) => '-'.repeat(width))),
    ...rows.flatMap((row, i) => [
      line(cells[i] ?? []),
      ...row.notes.map((note) => `    ${note}`),
      ...row.problems.map((problem) => `    PROBLEM: ${problem}`),
    ]),
  ].join('\n');
}

function quantity(value: number, unit: Row['unit']): string {
  return unit === 'ms' ? `${value.toFixed(1)} ms` : `${Math.round(value).toLocaleString('en')} /s`;
}
