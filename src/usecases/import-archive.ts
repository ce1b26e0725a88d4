import {
  ARCHIVE_TABLES,
  type ArchiveCounts,
  type ArchiveTable,
  readArchiveHeader,
  readArchiveLine,
} from '../domain/archive.ts';
import { ADDRESS_CHANNEL, ALL_ADDRESSES } from '../notifications/address-channel.ts';
import type { ArchiveStore } from '../store/archive-store.ts';
import type { Store } from '../store/store.ts';
import { sumOf } from './export-archive.ts';

/** Where an archive comes from. */
export interface ArchiveSource {
  /** Each without its end. */
  lines: AsyncIterable<string>;
  /** Told how far it is. */
  onProgress(doneRows: number, allRows: number): void;
  /** Aborted where nobody wants it any more. */
  signal: AbortSignal;
}

/** What came of it; nothing was changed but where it was imported. */
export type Imported =
  | { outcome: 'imported'; rows: ArchiveCounts }
  /** There is something in the database already, in these tables. */
  | { outcome: 'not_empty'; tables: ArchiveTable[] }
  /**
   * @property line from 1
   * @property writer the version of this program that wrote it, where that is another one
   */
  | { outcome: 'wrong_line'; line: number; problem: string; writer?: string }
  /** Lines contradict each other: see {@link Exported}. */
  | { outcome: 'contradictory'; miscounted: string[]; misnamed: string[] };

/** Each is one statement: enough rows that it costs little, few enough to be a megabyte or two. */
const ROWS_AT_ONCE = 1_000;
const CHARS_AT_ONCE = 2_000_000;

/** Undoes the transaction; what it says is what is answered. */
class Undone extends Error {
  readonly result: Imported;

  constructor(result: Imported) {
    super(result.outcome);
    this.result = result;
  }
}

/** Fills an empty database with what {@link ExportArchive} wrote: with all of it, or with nothing. */
export class ImportArchive {
  readonly #store: Store;
  readonly #version: string;

  /** @param version of this program */
  constructor(store: Store, version: string) {
    this.#store = store;
    this.#version = version;
  }

  /** @throws the reason of the source's signal, once that is aborted */
  async run({ lines, onProgress, signal }: ArchiveSource): Promise<Imported> {
    const reader = lines[Symbol.asyncIterator]();
    const first = await reader.next();
    const header = readArchiveHeader(first.done === true ? '' : first.value);
    if ('problem' in header) {
      const { problem, nutpost } = header;
      return this.#withWriter({ outcome: 'wrong_line', line: 1, problem }, nutpost);
    }
    const allRows = sumOf(header.rows);
    try {
      return await this.#store.transaction(async (tx) => {
        const { archive } = tx;
        await refuseFilled(archive);
        const filling = new Filling(archive, (doneRows) => onProgress(doneRows, allRows));
        for (let next = await reader.next(); next.done !== true; next = await reader.next()) {
          signal.throwIfAborted();
          await filling.take(next.value);
        }
        await filling.end(header.rows);
        await archive.settle();
        await refuseContradictions(archive);
        await tx.notify(ADDRESS_CHANNEL, [ALL_ADDRESSES]);
        return { outcome: 'imported', rows: header.rows };
      });
    } catch (error) {
      if (error instanceof Undone) {
        return this.#withWriter(error.result, header.nutpost);
      }
      throw error;
    }
  }

  /** What is wrong here may be right where it was written. */
  #withWriter(result: Imported, writer: string | undefined): Imported {
    const isOwn = writer === undefined || writer === this.#version;
    return result.outcome === 'wrong_line' && !isOwn ? { ...result, writer } : result;
  }
}

async function refuseFilled(archive: ArchiveStore): Promise<void> {
  await archive.lock();
  const tables = await archive.filledTables();
  if (tables.length > 0) {
    throw new Undone({ outcome: 'not_empty', tables });
  }
  await archive.forgetLearnt();
}

async function refuseContradictions(archive: ArchiveStore): Promise<void> {
  const miscounted = await archive.miscounted();
  const misnamed = await archive.misnamed();
  if (miscounted.length > 0 || misnamed.length > 0) {
    throw new Undone({ outcome: 'contradictory', miscounted, misnamed });
  }
}

/** Takes lines after the first, and adds them some at a time. */
class Filling {
  readonly #archive: ArchiveStore;
  readonly #onRows: (doneRows: number) => void;
  /** The line that was taken last, from 1. */
  #line = 1;
  #doneRows = 0;
  readonly #counts = Object.fromEntries(ARCHIVE_TABLES.map((table) => [table, 0])) as ArchiveCounts;
  /** The table of the rows that wait, which are the last lines that were taken. */
  #table: ArchiveTable | null = null;
  #rows: Record<string, unknown>[] = [];
  #chars = 0;

  constructor(archive: ArchiveStore, onRows: (doneRows: number) => void) {
    this.#archive = archive;
    this.#onRows = onRows;
  }

  async take(text: string): Promise<void> {
    const read = readArchiveLine(text);
    if ('problem' in read) {
      throw new Undone({ outcome: 'wrong_line', line: this.#line + 1, problem: read.problem });
    }
    const isFull = this.#rows.length >= ROWS_AT_ONCE || this.#chars >= CHARS_AT_ONCE;
    if (isFull || read.table !== this.#table) {
      await this.#add();
    }
    this.#table = read.table;
    this.#rows.push(read.row);
    this.#chars += text.length;
    this.#counts[read.table] += 1;
    this.#line += 1;
  }

  /** @param rows how many were promised; fewer are those of a file that was cut off */
  async end(rows: ArchiveCounts): Promise<void> {
    await this.#add();
    for (const table of ARCHIVE_TABLES) {
      const [is, was] = [this.#counts[table], rows[table]];
      if (is !== was) {
        const problem = `is the last one, with ${is} rows of ${table} read, and ${was} were exported`;
        throw new Undone({ outcome: 'wrong_line', line: this.#line, problem });
      }
    }
  }

  async #add(): Promise<void> {
    if (this.#table === null) {
      return;
    }
    const added = await this.#archive.add(this.#table, this.#rows);
    if (added.outcome === 'refused') {
      const line = this.#line - this.#rows.length + 1 + added.place;
      const problem = `${this.#table}: the database refuses it (${added.why})`;
      throw new Undone({ outcome: 'wrong_line', line, problem });
    }
    this.#doneRows += this.#rows.length;
    this.#onRows(this.#doneRows);
    this.#rows = [];
    this.#chars = 0;
  }
}
