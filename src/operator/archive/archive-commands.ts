import { parseArgs } from 'node:util';
import { VERSION } from '../../config.ts';
import { OperatorError } from '../../errors.ts';
import { ALL_RECIPIENTS, RECIPIENT_CHANGES_CHANNEL } from '../../recipients/recipient-directory.ts';
import type { Store } from '../../store.ts';
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
import type { ArchiveStore } from './archive-store.ts';

export const exportCommand: OperatorCommand = {
  name: 'export',
  usage: `  export   writes all data to standard output, as a backup or for an import elsewhere. Keep it
           secret: anyone who has it can take payments that were not collected yet
`,
  parse: (args) => {
    parseArgs({ args, options: {} });
    return async ({ store, clock }, io) => {
      // A snapshot does not block the service.
      const rows = await store.snapshot(({ archive }) => exportArchive(archive, io, clock()));
      // Standard output contains the archive.
      return { exitCode: 0, stdout: '', stderr: joinLines(...formatRowCounts('Exported', rows)) };
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
    return async ({ store }, io) => {
      if (io.stdin === null) {
        return createCommandResult(
          false,
          'No input: redirect the archive to standard input, as in `nutpost import < archive`.\n',
        );
      }
      try {
        const rows = await importArchive(store, readLines(io.stdin), io);
        return createCommandResult(true, joinLines(...formatRowCounts('Imported', rows)));
      } catch (error) {
        if (!(error instanceof ImportRejectedError)) {
          throw error;
        }
        const { writer } = error;
        const advice = `nutpost ${writer} wrote this archive: import it with that version, then upgrade.`;
        return createCommandResult(
          false,
          joinLines(
            `Nothing was imported${error.message}`,
            ...(writer === null || writer === VERSION ? [] : [advice]),
          ),
        );
      }
    };
  },
};

/** @throws the abort reason of `io.signal` */
async function exportArchive(
  archive: ArchiveStore,
  io: CommandIo,
  nowMs: number,
): Promise<ArchiveRowCounts> {
  await archive.disableTimeouts();
  const rows = await archive.countRows();
  await io.write(serializeArchiveHeader(rows, VERSION, nowMs));
  let doneRows = 0;
  for (const table of ARCHIVE_TABLES) {
    for await (const page of archive.readPages(table)) {
      io.signal.throwIfAborted();
      await io.write(page.map((row) => serializeArchiveRow(table, row)).join(''));
      doneRows += page.length;
      io.reportProgress(formatProgress('Exported', doneRows, rows));
    }
  }
  return rows;
}

/** Thrown to roll the transaction back. */
class ImportRejectedError extends Error {
  /** The version of nutpost that wrote the archive; null if it is unknown or does not matter. */
  readonly writer: string | null;

  /** @param message follows "Nothing was imported" */
  constructor(message: string, writer: string | null) {
    super(message);
    this.writer = writer;
  }
}

function invalidLineError(line: number, problem: string, header: ArchiveHeader | null) {
  return new ImportRejectedError(`. Line ${line}: ${problem}.`, header?.nutpost ?? null);
}

/**
 * Fills an empty database from an archive, in one transaction.
 *
 * @param lines without line breaks
 * @throws ImportRejectedError, or the abort reason of `io.signal`
 */
async function importArchive(
  store: Store,
  lines: AsyncGenerator<string>,
  io: CommandIo,
): Promise<ArchiveRowCounts> {
  const first = await lines.next();
  const header = parseArchiveHeader(first.done === true ? '' : first.value);
  if (header === null) {
    const problem = 'is not the first line of an archive that this nutpost can read';
    throw invalidLineError(1, problem, null);
  }
  await store.transaction(async (tx) => {
    await tx.archive.disableTimeouts();
    await tx.archive.lockTables();
    const tables = await tx.archive.clearSelfPopulatedAndListFilled();
    if (tables.length > 0) {
      const filled = `: the database is not empty (${tables.join(', ')}).`;
      const advice = 'Create an empty one with `nutpost migrate`.';
      throw new ImportRejectedError(`${filled}\n${advice}`, null);
    }
    await insertRows(tx.archive, lines, header, io);
    await tx.archive.resetSequencesAndAnalyze();
    await tx.notify(RECIPIENT_CHANGES_CHANNEL, [ALL_RECIPIENTS]);
  });
  return header.rows;
}

async function insertRows(
  archive: ArchiveStore,
  lines: AsyncIterable<string>,
  header: ArchiveHeader,
  io: CommandIo,
): Promise<void> {
  const remainingRows = { ...header.rows };
  let line = 1;
  for await (const { table, rows } of readBatches(lines, header)) {
    io.signal.throwIfAborted();
    line += rows.length;
    const reason = await archive.insertRows(table, rows);
    if (reason !== null) {
      const problem = `the database rejects one of the ${rows.length} rows of ${table} that end here (${reason})`;
      throw invalidLineError(line, problem, header);
    }
    remainingRows[table] -= rows.length;
    io.reportProgress(formatProgress('Imported', line - 1, header.rows));
  }
  const incompleteTable = ARCHIVE_TABLES.find((table) => remainingRows[table] !== 0);
  if (incompleteTable !== undefined) {
    const total = header.rows[incompleteTable];
    const count = total - remainingRows[incompleteTable];
    const problem = `is the last one, with ${count} of ${total} rows of ${incompleteTable}`;
    throw invalidLineError(line, problem, header);
  }
}

/** Bounds of one insert: few statements, and at most a megabyte or two in memory. */
const MAX_ROWS_PER_INSERT = 1_000;
const MAX_CHARS_PER_INSERT = 2_000_000;

/** Consecutive rows of one table. */
interface Batch {
  table: ArchiveTable;
  rows: ArchiveRow[];
}

async function* readBatches(
  lines: AsyncIterable<string>,
  header: ArchiveHeader,
): AsyncGenerator<Batch> {
  let batch: Batch = { table: ARCHIVE_TABLES[0], rows: [] };
  let chars = 0;
  let line = 1;
  for await (const text of lines) {
    line += 1;
    const parsedRow = parseArchiveRow(text);
    if (parsedRow === null) {
      throw invalidLineError(line, 'is not a row of an archive', header);
    }
    const isFull = batch.rows.length >= MAX_ROWS_PER_INSERT || chars >= MAX_CHARS_PER_INSERT;
    if (isFull || batch.table !== parsedRow.table) {
      yield batch;
      batch = { table: parsedRow.table, rows: [] };
      chars = 0;
    }
    batch.rows.push(parsedRow.row);
    chars += text.length;
  }
  yield batch;
}

function formatProgress(verb: string, doneRows: number, rows: ArchiveRowCounts): string {
  const total = sumRowCounts(rows);
  const percent = Math.floor((100 * doneRows) / total);
  return `${verb} ${formatNumber(doneRows)} of ${formatCount(total, 'row')} (${percent} %)`;
}

function formatRowCounts(verb: string, rows: ArchiveRowCounts): string[] {
  const filled = ARCHIVE_TABLES.filter((table) => rows[table] > 0);
  const width = Math.max(0, ...filled.map((table) => table.length));
  const ecashRows = rows.treasury_proofs + rows.treasury_withdrawals + rows.username_purchases;
  return [
    `${verb} ${formatCount(sumRowCounts(rows), 'row')}.`,
    ...filled.map((table) => `  ${table.padEnd(width)}  ${formatNumber(rows[table])}`),
    ...(ecashRows === 0
      ? []
      : [
          'These rows include ecash that only the treasury secret can decrypt: keep TREASURY_SECRET' +
            ' (or, if it is not set, the file treasury-secret in DATA_DIR).',
        ]),
  ];
}

/** Far more than the longest row, a purchase with its outputs, which takes kilobytes. */
const MAX_LINE_CHARS = 8 * 1024 * 1024;

/**
 * Yields the lines of a UTF-8 stream, without line breaks. Holds one line and one chunk in memory.
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
