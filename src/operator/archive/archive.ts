import { ADDRESS_CHANNEL, ALL_ADDRESSES } from '../../recipients/recipients.ts';
import type { Store, TransactionStore } from '../../store.ts';
import {
  ARCHIVE_TABLES,
  type ArchiveCounts,
  type ArchiveHeader,
  type ArchiveRow,
  type ArchiveTable,
  archiveHeader,
  archiveLine,
  readArchiveHeader,
  readArchiveLine,
  sumOf,
} from './archive-format.ts';

/** Where an archive goes. */
export interface ArchiveSink {
  /** Resolves when there is room for more. */
  write(lines: string): Promise<void>;
  onProgress(doneRows: number, allRows: number): void;
  /** Aborted if the archive is no longer wanted. */
  signal: AbortSignal;
}

/**
 * Writes an archive of the database as it is at one moment, while services go on.
 *
 * @param version of this program
 * @throws the reason of the sink's signal, once that is aborted
 */
export function writeArchive(
  store: Store,
  { version, nowMs }: { version: string; nowMs: number },
  { write, onProgress, signal }: ArchiveSink,
): Promise<ArchiveCounts> {
  return store.snapshot(async ({ archive }) => {
    await archive.liftTimeouts();
    const rows = await archive.counts();
    await write(archiveHeader(rows, version, nowMs));
    let doneRows = 0;
    for (const table of ARCHIVE_TABLES) {
      for await (const page of archive.pages(table)) {
        signal.throwIfAborted();
        await write(page.map((row) => archiveLine(table, row)).join(''));
        doneRows += page.length;
        onProgress(doneRows, sumOf(rows));
      }
    }
    return rows;
  });
}

/** Where an archive comes from. */
export interface ArchiveSource {
  /** Each without its end. */
  lines: AsyncIterable<string>;
  onProgress(doneRows: number, allRows: number): void;
  /** Aborted if the import is no longer wanted. */
  signal: AbortSignal;
}

/** The result of an import. Unless it is `imported`, nothing was changed. */
export type Imported =
  | { outcome: 'imported'; rows: ArchiveCounts }
  /** These tables of the database have rows already. */
  | { outcome: 'not_empty'; tables: ArchiveTable[] }
  /**
   * @property line from 1
   * @property writer the version of this program that wrote the archive; null if that is unknown
   */
  | { outcome: 'wrong_line'; line: number; problem: string; writer: string | null };

/** Bounds of one insert: enough rows to be fast, few enough for a megabyte or two. */
const MAX_BATCH_ROWS = 1_000;
const MAX_BATCH_CHARS = 2_000_000;

/** Rolls the transaction back. */
class Rejected extends Error {
  readonly result: Imported;

  constructor(result: Imported) {
    super(result.outcome);
    this.result = result;
  }
}

/**
 * Fills an empty database with an archive: with all of it, or with nothing.
 *
 * @throws the reason of the source's signal, once that is aborted
 */
export async function readArchive(store: Store, source: ArchiveSource): Promise<Imported> {
  const lines = source.lines[Symbol.asyncIterator]();
  const first = await lines.next();
  const header = readArchiveHeader(first.done === true ? '' : first.value);
  if (header === null) {
    const problem = 'is not the first line of an archive that this nutpost can read';
    return { outcome: 'wrong_line', line: 1, problem, writer: null };
  }
  try {
    return await store.transaction(async (tx) => {
      await refuseFilled(tx);
      await fill(tx, batches(lines, header), header, source);
      await tx.archive.finish();
      await tx.notify(ADDRESS_CHANNEL, [ALL_ADDRESSES]);
      return { outcome: 'imported', rows: header.rows };
    });
  } catch (error) {
    if (error instanceof Rejected) {
      return error.result;
    }
    throw error;
  }
}

async function refuseFilled({ archive }: TransactionStore): Promise<void> {
  await archive.liftTimeouts();
  await archive.lock();
  const tables = await archive.filledTables();
  if (tables.length > 0) {
    throw new Rejected({ outcome: 'not_empty', tables });
  }
}

async function fill(
  { archive }: TransactionStore,
  batched: AsyncIterable<Batch>,
  header: ArchiveHeader,
  { onProgress, signal }: ArchiveSource,
): Promise<void> {
  const left = { ...header.rows };
  let line = 1;
  for await (const { table, rows } of batched) {
    signal.throwIfAborted();
    line += rows.length;
    const refusal = await archive.add(table, rows);
    if (refusal !== null) {
      const which = `one of the ${rows.length} rows of ${table} that end here`;
      throw wrongLine(header, line, `the database rejects ${which} (${refusal})`);
    }
    left[table] -= rows.length;
    onProgress(line - 1, sumOf(header.rows));
  }
  const missing = ARCHIVE_TABLES.find((table) => left[table] !== 0);
  if (missing !== undefined) {
    const rows = `${header.rows[missing] - left[missing]} of ${header.rows[missing]}`;
    throw wrongLine(header, line, `is the last one, with ${rows} rows of ${missing}`);
  }
}

/** Consecutive rows of a table. */
interface Batch {
  table: ArchiveTable;
  rows: ArchiveRow[];
}

async function* batches(
  lines: AsyncIterator<string>,
  header: ArchiveHeader,
): AsyncGenerator<Batch> {
  let batch: Batch = { table: ARCHIVE_TABLES[0], rows: [] };
  let chars = 0;
  let line = 1;
  for (let next = await lines.next(); next.done !== true; next = await lines.next()) {
    line += 1;
    const read = readArchiveLine(next.value);
    if (read === null) {
      throw wrongLine(header, line, 'is not a row of an archive');
    }
    const isFull = batch.rows.length >= MAX_BATCH_ROWS || chars >= MAX_BATCH_CHARS;
    if (isFull || batch.table !== read.table) {
      yield batch;
      batch = { table: read.table, rows: [] };
      chars = 0;
    }
    batch.rows.push(read.row);
    chars += next.value.length;
  }
  yield batch;
}

function wrongLine({ nutpost }: ArchiveHeader, line: number, problem: string): Rejected {
  return new Rejected({ outcome: 'wrong_line', line, problem, writer: nutpost });
}
