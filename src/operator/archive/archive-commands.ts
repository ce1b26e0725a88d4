import { parseArgs } from 'node:util';
import { VERSION } from '../../config.ts';
import { type Db, notify, snapshot, type Tx, transaction } from '../../database/transaction.ts';
import { OperatorError } from '../../errors.ts';
import { ALL_RECIPIENTS, RECIPIENT_CHANGES_CHANNEL } from '../../recipients/recipient-directory.ts';
import { type CommandIo, createCommandResult, type OperatorCommand } from '../command.ts';
import { formatCount, formatNumber, joinLines } from '../format.ts';
import {
  ARCHIVE_TABLES,
  type ArchiveHeader,
  type ArchiveRow,
  type ArchiveRowCounts,
  type ArchiveTable,
  parseArchiveHeader,
  parseArchiveRow,
  serializeArchiveHeader,
  serializeArchiveRow,
  sumRowCounts,
} from './archive-format.ts';
import {
  clearSelfPopulatedAndListFilled,
  countArchiveRows,
  disableTimeouts,
  insertArchiveRows,
  loadArchiveColumns,
  lockArchiveTables,
  readArchivePages,
  resetSequencesAndAnalyze,
} from './archive-store.ts';

export const exportCommand: OperatorCommand = {
  name: 'export',
  usage: `  export   writes all data to standard output, as a backup or for an import elsewhere. Keep it
           secret: anyone who has it can take payments that were not collected yet
`,
  parse: (args) => {
    parseArgs({ args, options: {} });
    return async ({ db, clock }, io) => {
      // Reading a snapshot does not block the service.
      const rowCounts = await snapshot(db, (tx) => exportArchive(tx, io, clock()));
      // The archive is on standard output, so the summary goes to standard error.
      const summary = joinLines(...formatRowCounts('Exported', rowCounts));
      return { exitCode: 0, stdout: '', stderr: summary };
    };
  },
};

export const importCommand: OperatorCommand = {
  name: 'import',
  usage: `  import   reads the output of export from standard input into an empty database that
           \`nutpost migrate\` created; imports all of it or nothing
`,
  parse: (args) => {
    parseArgs({ args, options: {} });
    return async ({ db }, io) => {
      if (io.stdin === null) {
        return createCommandResult(
          false,
          'No input: redirect the archive to standard input, as in `nutpost import < archive`.\n',
        );
      }
      try {
        const rowCounts = await importArchive(db, readLines(io.stdin), io);
        return createCommandResult(true, joinLines(...formatRowCounts('Imported', rowCounts)));
      } catch (error) {
        if (!(error instanceof ImportRejectedError)) {
          throw error;
        }
        const { writerVersion } = error;
        const lines = [`Nothing was imported${error.message}`];
        if (writerVersion !== null && writerVersion !== VERSION) {
          lines.push(
            `nutpost ${writerVersion} wrote this archive: import it with that version, then upgrade.`,
          );
        }
        return createCommandResult(false, joinLines(...lines));
      }
    };
  },
};

/** @throws the abort reason of `io.signal` */
async function exportArchive(tx: Tx, io: CommandIo, nowMs: number): Promise<ArchiveRowCounts> {
  await disableTimeouts(tx);
  const columns = await loadArchiveColumns(tx);
  const rowCounts = await countArchiveRows(tx);
  await io.write(serializeArchiveHeader(rowCounts, VERSION, nowMs));
  let exportedCount = 0;
  for (const table of ARCHIVE_TABLES) {
    for await (const page of readArchivePages(tx, columns, table)) {
      io.signal.throwIfAborted();
      await io.write(page.map((row) => serializeArchiveRow(table, row)).join(''));
      exportedCount += page.length;
      io.reportProgress(formatProgress('Exported', exportedCount, rowCounts));
    }
  }
  return rowCounts;
}

/** Thrown in the transaction of an import, to roll it back. */
class ImportRejectedError extends Error {
  /** The version of nutpost that wrote the archive; null if it is unknown or does not matter. */
  readonly writerVersion: string | null;

  /** @param message follows the words "Nothing was imported" in the output */
  constructor(message: string, writerVersion: string | null) {
    super(message);
    this.writerVersion = writerVersion;
  }
}

function createLineError(lineNumber: number, problem: string, header: ArchiveHeader | null) {
  return new ImportRejectedError(`. Line ${lineNumber}: ${problem}.`, header?.nutpost ?? null);
}

/**
 * Fills an empty database from an archive, in one transaction.
 *
 * @param lines the lines of the archive, without line breaks
 * @throws ImportRejectedError, or the abort reason of `io.signal`
 */
async function importArchive(
  db: Db,
  lines: AsyncGenerator<string>,
  io: CommandIo,
): Promise<ArchiveRowCounts> {
  const firstLine = await lines.next();
  const header = parseArchiveHeader(firstLine.done === true ? '' : firstLine.value);
  if (header === null) {
    const problem = 'is not the first line of an archive that this nutpost can read';
    throw createLineError(1, problem, null);
  }
  await transaction(db, async (tx) => {
    await disableTimeouts(tx);
    await lockArchiveTables(tx);
    const filledTables = await clearSelfPopulatedAndListFilled(tx);
    if (filledTables.length > 0) {
      const problem = `: the database is not empty (${filledTables.join(', ')}).`;
      const advice = 'Create an empty one with `nutpost migrate`.';
      throw new ImportRejectedError(`${problem}\n${advice}`, null);
    }
    await insertRows(tx, lines, header, io);
    await resetSequencesAndAnalyze(tx);
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
  const columns = await loadArchiveColumns(tx);
  const remainingCounts = { ...header.rows };
  let lineNumber = 1;
  for await (const { table, rows } of readBatches(lines, header)) {
    io.signal.throwIfAborted();
    lineNumber += rows.length;
    const reason = await insertArchiveRows(tx, columns, table, rows);
    if (reason !== null) {
      const problem = `the database rejects one of the ${rows.length} rows of ${table} that end here (${reason})`;
      throw createLineError(lineNumber, problem, header);
    }
    remainingCounts[table] -= rows.length;
    io.reportProgress(formatProgress('Imported', lineNumber - 1, header.rows));
  }
  const incompleteTable = ARCHIVE_TABLES.find((table) => remainingCounts[table] !== 0);
  if (incompleteTable !== undefined) {
    const total = header.rows[incompleteTable];
    const count = total - remainingCounts[incompleteTable];
    const problem = `is the last one, with ${count} of ${total} rows of ${incompleteTable}`;
    throw createLineError(lineNumber, problem, header);
  }
}

/** The limits of one insert, so that an import needs few statements, but only one or two megabytes of memory. */
const MAX_ROWS_PER_INSERT = 1_000;
const MAX_CHARS_PER_INSERT = 2_000_000;

interface Batch {
  table: ArchiveTable;
  rows: ArchiveRow[];
}

/** Groups consecutive rows of a table into batches for one insert each. */
async function* readBatches(
  lines: AsyncIterable<string>,
  header: ArchiveHeader,
): AsyncGenerator<Batch> {
  let batch: Batch = { table: ARCHIVE_TABLES[0], rows: [] };
  let charCount = 0;
  let lineNumber = 1;
  for await (const line of lines) {
    lineNumber += 1;
    const parsedRow = parseArchiveRow(line);
    if (parsedRow === null) {
      throw createLineError(lineNumber, 'is not a row of an archive', header);
    }
    const isFull = batch.rows.length >= MAX_ROWS_PER_INSERT || charCount >= MAX_CHARS_PER_INSERT;
    if (isFull || batch.table !== parsedRow.table) {
      yield batch;
      batch = { table: parsedRow.table, rows: [] };
      charCount = 0;
    }
    batch.rows.push(parsedRow.row);
    charCount += line.length;
  }
  yield batch;
}

function formatProgress(verb: string, doneCount: number, rowCounts: ArchiveRowCounts): string {
  const total = sumRowCounts(rowCounts);
  const percent = Math.floor((100 * doneCount) / total);
  return `${verb} ${formatNumber(doneCount)} of ${formatCount(total, 'row')} (${percent} %)`;
}

function formatRowCounts(verb: string, rowCounts: ArchiveRowCounts): string[] {
  const filledTables = ARCHIVE_TABLES.filter((table) => rowCounts[table] > 0);
  const width = Math.max(0, ...filledTables.map((table) => table.length));
  const lines = [
    `${verb} ${formatCount(sumRowCounts(rowCounts), 'row')}.`,
    ...filledTables.map((table) => `  ${table.padEnd(width)}  ${formatNumber(rowCounts[table])}`),
  ];
  const { treasury_proofs, treasury_withdrawals, username_purchases } = rowCounts;
  if (treasury_proofs + treasury_withdrawals + username_purchases > 0) {
    lines.push(
      'These rows include ecash that only the treasury secret can decrypt: keep TREASURY_SECRET' +
        ' (or, if it is not set, the file treasury-secret in DATA_DIR).',
    );
  }
  return lines;
}

/** Far above the longest row: a purchase with its outputs takes a few kilobytes. */
const MAX_LINE_CHARS = 8 * 1024 * 1024;

/**
 * Yields the lines of a UTF-8 stream, without line breaks. Keeps only one line and one chunk in memory.
 *
 * @throws OperatorError if a line is too long or not UTF-8
 */
export async function* readLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let lineNumber = 1;
  let partialLine = '';
  const decode = (chunk?: Uint8Array) => {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined });
    } catch {
      throw new OperatorError(`Line ${lineNumber} or a later one is not UTF-8.`);
    }
  };
  for await (const chunk of chunks) {
    const lines = (partialLine + decode(chunk)).split('\n');
    partialLine = lines.pop() ?? '';
    for (const line of lines) {
      yield line;
      lineNumber += 1;
    }
    if (partialLine.length > MAX_LINE_CHARS) {
      throw new OperatorError(`Line ${lineNumber} is longer than ${MAX_LINE_CHARS} characters.`);
    }
  }
  partialLine += decode();
  if (partialLine !== '') {
    yield partialLine;
  }
}
