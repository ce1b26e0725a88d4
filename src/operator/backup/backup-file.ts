import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { text } from 'node:stream/consumers';
import { OperatorError } from '../../errors.ts';
import { parseArchiveHeader, readBatches, readLines } from '../archive/archive-commands.ts';
import { readSqliteContent } from './backup-store.ts';

/** What a backup contains: the number of rows by table, and the newest payment. Times are milliseconds since 1970. */
export interface BackupContent {
  rows: Record<string, number>;
  newestPayment: { paidAtMs: number; amountSat: number } | null;
}

/** The formats, with the first bytes of a file and what to do with it. */
export const BACKUP_FORMATS = {
  sqlite: {
    start: 'SQLite format 3\0',
    name: 'copy of the SQLite database',
    extension: 'sqlite',
    inspect: inspectSqlite,
  },
  dump: {
    start: 'PGDMP',
    name: 'dump of PostgreSQL',
    extension: 'dump',
    inspect: inspectDump,
  },
  archive: {
    start: '{',
    name: 'archive, as of `nutpost export`',
    extension: 'ndjson',
    inspect: inspectArchive,
  },
};

export type BackupFormat = keyof typeof BACKUP_FORMATS;

/** Returns the format by the first bytes. @throws OperatorError if the file is not a backup */
export function readBackupFormat(file: string): BackupFormat {
  const bytes = Buffer.alloc(16);
  try {
    const descriptor = fs.openSync(file, 'r');
    fs.readSync(descriptor, bytes);
    fs.closeSync(descriptor);
  } catch (error) {
    throw new OperatorError(`${file} cannot be read (${(error as Error).message}).`);
  }
  const formats = Object.keys(BACKUP_FORMATS) as BackupFormat[];
  const start = bytes.toString('latin1');
  const format = formats.find((name) => start.startsWith(BACKUP_FORMATS[name].start));
  if (format === undefined) {
    throw new OperatorError(`${file} is not a backup of nutpost.`);
  }
  return format;
}

/** Reads the whole backup. @throws OperatorError if it is damaged, incomplete, or of something else */
export async function inspectBackup(file: string, format: BackupFormat): Promise<BackupContent> {
  try {
    const content = await BACKUP_FORMATS[format].inspect(file);
    if (!('users' in content.rows && 'quotes' in content.rows)) {
      throw new Error('it has no users and quotes');
    }
    return content;
  } catch (error) {
    const { message, syscall } = error as NodeJS.ErrnoException;
    throw new OperatorError(
      syscall === 'spawn pg_restore'
        ? `${file} is a dump of PostgreSQL. Install pg_restore, which reads it.`
        : `${file} is damaged, or no backup: ${message.replace(/\.$/, '')}.`,
    );
  }
}

function inspectSqlite(file: string): BackupContent {
  const { rows, newestQuote } = readSqliteContent(file);
  const content: BackupContent = { rows, newestPayment: null };
  addPayment(content, newestQuote?.['paid_at'], newestQuote?.['amount_sat']);
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
  const content: BackupContent = { rows: {}, newestPayment: null };
  let copied: { table: string; columns: string[]; count: number } | null = null;
  for await (const line of lines) {
    const [, table, columns] = COPY_START.exec(line) ?? [];
    if (copied === null && table !== undefined && columns !== undefined) {
      copied = { table, columns: columns.split(', '), count: 0 };
    } else if (copied !== null && line === '\\.') {
      content.rows[copied.table] = copied.count;
      copied = null;
    } else if (copied !== null) {
      copied.count += 1;
      if (copied.table === 'quotes') {
        const { columns: names } = copied;
        const values = line.split('\t');
        addPayment(content, values[names.indexOf('paid_at')], values[names.indexOf('amount_sat')]);
      }
    }
  }
  return content;
}

async function inspectArchive(file: string): Promise<BackupContent> {
  const lines = readLines(fs.createReadStream(file));
  const header = parseArchiveHeader((await lines.next()).value);
  const content: BackupContent = { rows: header.rows, newestPayment: null };
  for await (const { table, rows } of readBatches(lines, header)) {
    for (const row of table === 'quotes' ? rows : []) {
      addPayment(content, row['paid_at'], row['amount_sat']);
    }
  }
  return content;
}

/** @param paidAt null, or `\N` in a dump, if the quote is not paid */
function addPayment(content: BackupContent, paidAt: unknown, amountSat: unknown): void {
  const paidAtMs = Number(paidAt);
  if (paidAtMs > (content.newestPayment?.paidAtMs ?? 0)) {
    content.newestPayment = { paidAtMs, amountSat: Number(amountSat) };
  }
}
