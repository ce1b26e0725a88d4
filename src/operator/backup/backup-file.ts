import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { text } from 'node:stream/consumers';
import { OperatorError } from '../../errors.ts';
import { tryParseJson } from '../../untrusted-text.ts';
import { parseArchiveHeader, readLines } from '../archive/archive-commands.ts';
import { archiveLineSchema } from '../archive/archive-store.ts';
import { readSqliteContent } from './backup-store.ts';

/** `sqlite`: a copy of the database; `dump`: of pg_dump; `archive`: the output of `nutpost export`. */
export type BackupFormat = 'sqlite' | 'dump' | 'archive';

/** What a backup contains: the number of rows by table, and the newest payment. Times are milliseconds since 1970. */
export interface BackupContent {
  rows: Record<string, number>;
  newestPayment: { paidAtMs: number; amountSat: number } | null;
}

/** Returns the format by the first bytes. @throws OperatorError if the file is not a backup */
export function readBackupFormat(file: string): BackupFormat {
  const start = readFirstBytes(file);
  if (start.startsWith('SQLite format 3\0')) {
    return 'sqlite';
  }
  if (start.startsWith('PGDMP')) {
    return 'dump';
  }
  if (start.startsWith('{')) {
    return 'archive';
  }
  throw new OperatorError(`${file} is not a backup of nutpost.`);
}

function readFirstBytes(file: string): string {
  const bytes = Buffer.alloc(16);
  try {
    const descriptor = fs.openSync(file, 'r');
    fs.readSync(descriptor, bytes);
    fs.closeSync(descriptor);
  } catch (error) {
    throw new OperatorError(`${file} cannot be read (${(error as Error).message}).`);
  }
  return bytes.toString('latin1');
}

/** Reads the whole backup. @throws OperatorError if it is damaged, incomplete, or of something else */
export async function inspectBackup(file: string): Promise<BackupContent> {
  try {
    const content = await INSPECTORS[readBackupFormat(file)](file);
    if (!('users' in content.rows && 'quotes' in content.rows)) {
      throw new Error('it has no users and quotes');
    }
    return content;
  } catch (error) {
    const { message, syscall } = error as NodeJS.ErrnoException;
    throw error instanceof OperatorError
      ? error
      : new OperatorError(
          syscall === 'spawn pg_restore'
            ? `${file} is a dump of PostgreSQL. Install pg_restore, which reads it.`
            : `${file} is damaged, or no backup: ${message}.`,
        );
  }
}

const INSPECTORS: Record<BackupFormat, (file: string) => BackupContent | Promise<BackupContent>> = {
  sqlite: inspectSqlite,
  dump: inspectDump,
  archive: inspectArchive,
};

function inspectSqlite(file: string): BackupContent {
  const { rows, newestQuote } = readSqliteContent(file);
  const content = new ContentCounter(rows);
  content.addPayment((column) => newestQuote?.[column]);
  return content;
}

/** Reads all rows as pg_restore would restore them. */
async function inspectDump(file: string): Promise<BackupContent> {
  const options = ['--data-only', '--file=-', file];
  const child = spawn('pg_restore', options, { stdio: ['ignore', 'pipe', 'pipe'] });
  const [content, message, [exitCode]] = await Promise.all([
    countCopiedRows(readLines(child.stdout)),
    text(child.stderr),
    once(child, 'close'),
  ]);
  if (exitCode !== 0) {
    throw new Error(message.trim());
  }
  return content;
}

const COPY_START = /^COPY \w+\.(\w+) \((.*)\) FROM stdin;$/;

async function countCopiedRows(lines: AsyncIterable<string>): Promise<BackupContent> {
  const content = new ContentCounter({});
  let copied: { table: string; columns: string[] } | null = null;
  for await (const line of lines) {
    const [, table, columns] = COPY_START.exec(line) ?? [];
    if (copied === null && table !== undefined && columns !== undefined) {
      copied = { table, columns: columns.split(', ') };
      content.rows[table] = 0;
    } else if (line === '\\.') {
      copied = null;
    } else if (copied !== null) {
      const { columns: names, table: name } = copied;
      const values = name === 'quotes' ? line.split('\t') : [];
      content.addRow(name, (column) => values[names.indexOf(column)]);
    }
  }
  return content;
}

async function inspectArchive(file: string): Promise<BackupContent> {
  const lines = readLines(fs.createReadStream(file));
  const { value: firstLine } = await lines.next();
  const { rows: expected } = parseArchiveHeader(firstLine);
  const content = new ContentCounter({ users: 0, quotes: 0 });
  for await (const line of lines) {
    const { data } = archiveLineSchema.safeParse(tryParseJson(line));
    if (data === undefined) {
      throw new Error('it has a line that is not a row of an archive');
    }
    content.addRow(data.table, (column) => data.row[column]);
  }
  for (const [table, count] of Object.entries(expected)) {
    const found = content.rows[table] ?? 0;
    if (found !== count) {
      throw new Error(`it has ${found} of ${count} rows of ${table}`);
    }
  }
  return content;
}

class ContentCounter implements BackupContent {
  readonly rows: Record<string, number>;
  newestPayment: BackupContent['newestPayment'] = null;

  constructor(rows: Record<string, number>) {
    this.rows = rows;
  }

  addRow(table: string, read: (column: string) => unknown): void {
    this.rows[table] = (this.rows[table] ?? 0) + 1;
    if (table === 'quotes') {
      this.addPayment(read);
    }
  }

  addPayment(readQuote: (column: string) => unknown): void {
    // Null, or `\N` in a dump, if the quote is not paid.
    const paidAtMs = Number(readQuote('paid_at') ?? Number.NaN);
    if (paidAtMs > (this.newestPayment?.paidAtMs ?? 0)) {
      this.newestPayment = { paidAtMs, amountSat: Number(readQuote('amount_sat')) };
    }
  }
}
