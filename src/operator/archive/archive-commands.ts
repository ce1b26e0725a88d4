import {
  type Db,
  disableTimeouts,
  notify,
  snapshot,
  type Tx,
  transaction,
} from '../../database/transaction.ts';
import { OperatorError } from '../../errors.ts';
import { type AuditEvent, recordAuditEvent } from '../../recipients/audit-store.ts';
import { ALL_RECIPIENTS, RECIPIENT_CHANGES_CHANNEL } from '../../recipients/recipient-directory.ts';
import { tryParseJson } from '../../untrusted-text.ts';
import { VERSION } from '../../version.ts';
import { type CommandReport, defineCommand } from '../command.ts';
import { formatCount, formatNumber, formatTime } from '../format.ts';
import type { CommandIo } from '../process-io.ts';
import {
  ARCHIVE_TABLES,
  type ArchiveHeader,
  type ArchiveRow,
  type ArchiveRowCounts,
  type ArchiveTable,
  archiveHeaderSchema,
  archiveLineSchema,
  archiveWriterSchema,
  clearAndListFilledTables,
  countArchiveRows,
  insertArchiveRows,
  loadArchiveColumns,
  lockArchiveTables,
  readArchivePages,
  resetSequencesAndAnalyze,
} from './archive-store.ts';

export const exportCommand = defineCommand({
  name: 'export',
  description:
    'writes all data to standard output, as a backup or for an import elsewhere. Keep it secret: anyone who has it can take payments that were not collected yet; the summary is on standard error',
  run: async ({ db, clock }, _options, _operands, io) => {
    // Reading a snapshot does not block the service.
    const rows = await snapshot(db, (tx) => exportArchive(tx, io, clock()));
    return { ...reportRowCounts('Exported', rows), output: '' };
  },
});

export const importCommand = defineCommand({
  name: 'import',
  description:
    'reads the output of export from standard input into an empty database that `nutpost migrate` created; imports all of it or nothing',
  run: async ({ db, systemUser, clock }, _options, _operands, io) => {
    if (io.stdin === null) {
      throw new OperatorError(
        'No input: redirect the archive to standard input, as in `nutpost import < archive`.',
      );
    }
    const atMs = clock();
    const rows = await importArchive(db, readLines(io.stdin), io, { systemUser, atMs });
    return reportRowCounts('Imported', rows);
  },
});

/** Writes an archive of a snapshot. */
export async function exportArchive(
  tx: Tx,
  io: Pick<CommandIo, 'write' | 'reportProgress'>,
  nowMs: number,
): Promise<ArchiveRowCounts> {
  const columnsOf = await loadArchiveColumns(tx);
  const rowCounts = await countArchiveRows(tx);
  const made_at = formatTime(nowMs);
  const header: ArchiveHeader = { archive: 'nutpost', nutpost: VERSION, made_at, rows: rowCounts };
  await io.write(`${JSON.stringify(header)}\n`);
  let exportedCount = 0;
  for (const table of ARCHIVE_TABLES) {
    for await (const page of readArchivePages(tx, table, columnsOf(table))) {
      await io.write(page.map((row) => `${JSON.stringify({ table, row })}\n`).join(''));
      exportedCount += page.length;
      io.reportProgress(formatProgress('Exported', exportedCount, header.rows));
    }
  }
  return header.rows;
}

/** Imports all lines of an archive or nothing. @throws OperatorError that names the wrong line */
export async function importArchive(
  db: Db,
  lines: AsyncGenerator<string>,
  io: CommandIo,
  audit: Pick<AuditEvent, 'systemUser' | 'atMs'>,
): Promise<ArchiveRowCounts> {
  const { value: firstLine } = await lines.next();
  const header = parseArchiveHeader(firstLine);
  await transaction(db, async (tx) => {
    await disableTimeouts(tx);
    await lockArchiveTables(tx);
    const filledTables = await clearAndListFilledTables(tx);
    if (filledTables.length > 0) {
      throw new OperatorError(
        `Nothing was imported: the database is not empty (${filledTables.join(', ')}).\n` +
          'Create an empty one with `nutpost migrate`.',
      );
    }
    await insertRows(tx, lines, header, io);
    await resetSequencesAndAnalyze(tx);
    const { made_at, nutpost } = header;
    await recordAuditEvent(tx, { ...audit, action: 'import', after: { made_at, nutpost } });
    await notify(tx, RECIPIENT_CHANGES_CHANNEL, [ALL_RECIPIENTS]);
  });
  return header.rows;
}

async function insertRows(
  tx: Tx,
  lines: AsyncIterable<string>,
  header: ArchiveHeader,
  io: CommandIo,
): Promise<void> {
  const columnsOf = await loadArchiveColumns(tx);
  let importedCount = 0;
  for await (const { table, rows } of readBatches(lines, header)) {
    const rejection = await insertArchiveRows(tx, table, columnsOf(table), rows);
    importedCount += rows.length;
    if (rejection !== null) {
      const problem = `the database rejects one of the ${rows.length} rows of ${table} that end here (${rejection})`;
      throw createLineError(HEADER_LINE_COUNT + importedCount, problem, header);
    }
    io.reportProgress(formatProgress('Imported', importedCount, header.rows));
  }
}

/** Parses the first line of an archive. @throws OperatorError if it is none, or of a version with other tables */
export function parseArchiveHeader(line = ''): ArchiveHeader {
  const json = tryParseJson(line);
  const header = archiveHeaderSchema.safeParse(json).data;
  if (header === undefined) {
    const writer = archiveWriterSchema.safeParse(json).data;
    const problem = 'is not the first line of an archive that this nutpost can read';
    throw createLineError(HEADER_LINE_COUNT, problem, writer);
  }
  return header;
}

function createLineError(
  lineNumber: number,
  problem: string,
  { nutpost: writerVersion }: Pick<ArchiveHeader, 'nutpost'> = { nutpost: VERSION },
) {
  const hint = `\nnutpost ${writerVersion} wrote this archive: import it with that version, then upgrade.`;
  return new OperatorError(
    `Nothing was imported. Line ${lineNumber}: ${problem}.${writerVersion === VERSION ? '' : hint}`,
  );
}

const HEADER_LINE_COUNT = 1;
const ROWS_PER_INSERT = 500;

/**
 * Yields the rows in batches of one table each. The first batch may be empty.
 *
 * @throws OperatorError that names the wrong line, or the last one if rows are missing
 */
export async function* readBatches(lines: AsyncIterable<string>, header: ArchiveHeader) {
  const missingCounts = { ...header.rows };
  let batch: { table: ArchiveTable; rows: ArchiveRow[] } = { table: ARCHIVE_TABLES[0], rows: [] };
  let lineNumber = HEADER_LINE_COUNT;
  for await (const line of lines) {
    lineNumber += 1;
    const parsed = archiveLineSchema.safeParse(tryParseJson(line)).data;
    if (parsed === undefined) {
      throw createLineError(lineNumber, 'is not a row of an archive', header);
    }
    if (batch.rows.length >= ROWS_PER_INSERT || batch.table !== parsed.table) {
      yield batch;
      batch = { table: parsed.table, rows: [] };
    }
    batch.rows.push(parsed.row);
    missingCounts[parsed.table] -= 1;
  }
  yield batch;
  const wrongTable = ARCHIVE_TABLES.find((table) => missingCounts[table] !== 0);
  if (wrongTable !== undefined) {
    const total = header.rows[wrongTable];
    const found = total - missingCounts[wrongTable];
    const problem = `is the last one, with ${found} of ${total} rows of ${wrongTable}`;
    throw createLineError(lineNumber, problem, header);
  }
}

function formatProgress(verb: string, doneCount: number, rowCounts: ArchiveRowCounts): string {
  const total = sumRowCounts(rowCounts);
  const percent = Math.floor((100 * doneCount) / total);
  return `${verb} ${formatNumber(doneCount)} of ${formatCount(total, 'row')} (${percent} %)`;
}

function reportRowCounts(verb: 'Exported' | 'Imported', rows: ArchiveRowCounts): CommandReport {
  const filledTables = ARCHIVE_TABLES.filter((table) => rows[table] > 0);
  const width = Math.max(0, ...filledTables.map((table) => table.length));
  const { treasury_proofs, treasury_withdrawals, username_purchases } = rows;
  const hasEcash = treasury_proofs + treasury_withdrawals + username_purchases > 0;
  return {
    isSuccess: true,
    json: { outcome: verb.toLowerCase(), rows },
    lines: [
      `${verb} ${formatCount(sumRowCounts(rows), 'row')}.`,
      ...filledTables.map((table) => `  ${table.padEnd(width)}  ${formatNumber(rows[table])}`),
      ...(hasEcash ? [ECASH_TEXT] : []),
    ],
  };
}

const ECASH_TEXT =
  'These rows include ecash that only the treasury secret can decrypt: keep TREASURY_SECRET (or, if it is not set, the file treasury-secret in DATA_DIR).';

function sumRowCounts(rows: ArchiveRowCounts): number {
  return Object.values(rows).reduce((sum, count) => sum + count, 0);
}

export async function* readLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let partialLine = '';
  for await (const chunk of chunks) {
    try {
      partialLine += decoder.decode(chunk, { stream: true });
    } catch {
      throw new OperatorError('Nothing was imported: the input is not UTF-8.');
    }
    const lines = partialLine.split('\n');
    partialLine = lines.pop() ?? '';
    yield* lines;
  }
  if (partialLine !== '') {
    yield partialLine;
  }
}
