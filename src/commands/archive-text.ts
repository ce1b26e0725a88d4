import { ARCHIVE_TABLES, type ArchiveCounts, sumOf } from '../domain/archive.ts';
import type { Imported } from '../usecases/import-archive.ts';
import { count, lines } from './plain-text.ts';

/** The texts of `nutpost export` and `nutpost import`. */

/** The progress, in one line. */
export function progressInWords(verb: string, doneRows: number, allRows: number): string {
  const percent = Math.floor((100 * doneRows) / allRows);
  return `${verb} ${doneRows.toLocaleString('en')} of ${count(allRows, 'row')} (${percent} %)`;
}

/** The number of rows by table, and a reminder of the secret if there is ecash. */
export function rowsInWords(verb: string, rows: ArchiveCounts): string[] {
  const filled = ARCHIVE_TABLES.filter((table) => rows[table] > 0);
  const width = Math.max(0, ...filled.map((table) => table.length));
  return [
    `${verb} ${count(sumOf(rows), 'row')}.`,
    ...filled.map((table) => `  ${table.padEnd(width)}  ${rows[table].toLocaleString('en')}`),
    ...(hasEcash(rows) ? [SECRET_NEEDED] : []),
  ];
}

export function importedToText(imported: Imported, version: string): string {
  switch (imported.outcome) {
    case 'imported':
      return lines(...rowsInWords('Imported', imported.rows));
    case 'not_empty':
      return lines(
        `Nothing was imported: the database is not empty (${imported.tables.join(', ')}).`,
        'Give one that `nutpost migrate` has just made.',
      );
    case 'wrong_line': {
      const { line, problem, writer } = imported;
      return lines(
        `Nothing was imported. Line ${line}: ${problem}.`,
        ...(writer === null || writer === version
          ? []
          : [`nutpost ${writer} wrote it: import it with that version, and upgrade afterwards.`]),
      );
    }
  }
}

/** An embedded database generates the secret itself, so the operator may not know it. */
const SECRET_NEEDED =
  'There is ecash among them, which only the treasury secret opens: keep TREASURY_SECRET as it was (if it was' +
  ' not set, it is in the file treasury-secret of DATA_DIR).';

function hasEcash(rows: ArchiveCounts): boolean {
  return rows.treasury_proofs > 0 || rows.treasury_withdrawals > 0 || rows.username_purchases > 0;
}
