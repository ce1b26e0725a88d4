import { ARCHIVE_TABLES, type ArchiveCounts } from '../domain/archive.ts';
import { sumOf } from '../usecases/export-archive.ts';
import type { Imported } from '../usecases/import-archive.ts';
import { count, keyInWords, lines } from './plain-text.ts';

/** What a person is told of archives. */

/** How far it is, in one line. */
export function progressInWords(verb: string, doneRows: number, allRows: number): string {
  const percent = Math.floor((100 * doneRows) / allRows);
  return `${verb} ${doneRows.toLocaleString('en')} of ${count(allRows, 'row')} (${percent} %)`;
}

/** How many rows there were of what; and what they need, where there is ecash among them. */
export function rowsInWords(verb: string, rows: ArchiveCounts): string[] {
  const filled = ARCHIVE_TABLES.filter((table) => rows[table] > 0);
  const width = Math.max(0, ...filled.map((table) => table.length));
  return [
    `${verb} ${count(sumOf(rows), 'row')}.`,
    ...filled.map((table) => `  ${table.padEnd(width)}  ${rows[table].toLocaleString('en')}`),
    ...(hasEcash(rows) ? [SECRET_NEEDED] : []),
  ];
}

export function importedToText(imported: Imported): string {
  switch (imported.outcome) {
    case 'imported':
      return lines(...rowsInWords('Imported', imported.rows));
    case 'not_empty':
      return lines(
        `Nothing was imported: the database is not empty (${imported.tables.join(', ')}).`,
        'Give one that `nutpost migrate` has just made.',
      );
    case 'wrong_line':
      return lines(
        `Nothing was imported. Line ${imported.line}: ${imported.problem}.`,
        ...(imported.writer === undefined
          ? []
          : [
              `nutpost ${imported.writer} wrote it: import it with that version, and upgrade afterwards.`,
            ]),
      );
    case 'contradictory':
      return lines(
        'Nothing was imported: lines contradict each other.',
        ...contradictionsInWords(imported.miscounted, imported.misnamed),
      );
  }
}

/** A line for each. */
export function contradictionsInWords(
  miscounted: readonly string[],
  misnamed: readonly string[],
): string[] {
  return [
    ...miscounted.map(
      (pubkey) =>
        `  ${keyInWords(pubkey, null)}: \`paid_count\` of users is not how many quotes have a \`paid_seq\`,` +
        ' which go from 1 to that',
    ),
    ...misnamed.map(
      (name) => `  ${name}: is in use by usernames, or of users, and not by both for the same key`,
    ),
  ];
}

/** With an embedded database it may have been made, and nobody was ever told it. */
const SECRET_NEEDED =
  'There is ecash among them, which only the treasury secret opens: keep TREASURY_SECRET as it was (where it' +
  ' was not set, it is in the file treasury-secret of DATA_DIR).';

function hasEcash(rows: ArchiveCounts): boolean {
  return rows.treasury_proofs > 0 || rows.treasury_withdrawals > 0 || rows.username_purchases > 0;
}
