import type { Row } from './figure.ts';

const COLUMNS = ['figure', 'ours', 'floor, or to reach', 'ratio', 'of each pair of runs'];

/** The table of all figures, the notes of each below its line. */
export function renderTable(rows: readonly Row[]): string {
  const cells = rows.map((row) => [row.title, quantity(row.ours, row.unit), ...comparison(row)]);
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

/** The last three cells of a line. */
function comparison(row: Row): string[] {
  if ('floor' in row) {
    return [
      quantity(row.floor, row.unit),
      row.ratio.toFixed(2),
      `${row.lowestRatio.toFixed(2)} to ${row.highestRatio.toFixed(2)}`,
    ];
  }
  if (row.atMost === null) {
    return ['', '', ''];
  }
  return [
    `at most ${quantity(row.atMost, row.unit)}`,
    (row.ours / row.atMost).toFixed(2),
    row.ours <= row.atMost ? 'reached' : 'NOT REACHED',
  ];
}

function quantity(value: number, unit: Row['unit']): string {
  switch (unit) {
    case '/s':
      return `${Math.round(value).toLocaleString('en')} /s`;
    case 'MB':
      return `${Math.round(value)} MB`;
    case 'ms':
      return `${value.toFixed(1)} ms`;
    case 'cores':
    case 'x':
      return `${value.toFixed(2)} ${unit}`;
  }
}
