import { z } from 'zod';
import { parseJson } from '../../untrusted-text.ts';

/**
 * An archive: the database in lines of JSON, to move it to another database or to keep it as a backup. The first line
 * is the header. Every other line is a row of a table, under the column names. It is the same whichever
 * database it comes from.
 */

/** The tables in the order of an archive: a row comes after the rows that it refers to. */
export const ARCHIVE_TABLES = [
  'usernames',
  'users',
  'npubcash_imported_rows',
  'mints',
  'relays',
  'quotes',
  'quote_events',
  'zap_receipts',
  'zap_receipt_deliveries',
  'username_purchases',
  'username_purchase_proofs',
  'treasury_key',
  'treasury_withdrawals',
  'treasury_proofs',
] as const;

export type ArchiveTable = (typeof ARCHIVE_TABLES)[number];

/** Columns that belong to running processes, which an archive leaves out. */
export const LEFT_OUT: Partial<Record<ArchiveTable, readonly string[]>> = {
  quotes: ['address_group'],
  username_purchases: ['lease_holder', 'lease_until'],
};

/** How many rows of each table. */
export type ArchiveCounts = Record<ArchiveTable, number>;

/** A row under its column names. */
export type ArchiveRow = Record<string, string | number | null>;

const header = z.strictObject({
  archive: z.literal('nutpost'),
  nutpost: z.string().regex(/^[\w.+-]{1,40}$/),
  made_at: z.iso.datetime(),
  rows: z.record(z.enum(ARCHIVE_TABLES), z.int().min(0)),
});

const line = z.strictObject({
  table: z.enum(ARCHIVE_TABLES),
  row: z.record(z.string(), z.union([z.string(), z.int(), z.null()])),
});

/** The first line of an archive. */
export type ArchiveHeader = z.infer<typeof header>;

/** The first line of an archive, ended. @param nutpost the version of this program */
export function archiveHeader(rows: ArchiveCounts, nutpost: string, nowMs: number): string {
  const madeAt = new Date(nowMs).toISOString();
  return `${JSON.stringify({ archive: 'nutpost', nutpost, made_at: madeAt, rows })}\n`;
}

/** One of the other lines, ended. */
export function archiveLine(table: ArchiveTable, row: ArchiveRow): string {
  return `${JSON.stringify({ table, row })}\n`;
}

/** Reads the first line; null if it is not the header of an archive with these tables. */
export function readArchiveHeader(text: string): ArchiveHeader | null {
  return header.safeParse(parseJson(text)).data ?? null;
}

/** Reads one of the other lines; null if it is not a row of a table. */
export function readArchiveLine(text: string): { table: ArchiveTable; row: ArchiveRow } | null {
  return line.safeParse(parseJson(text)).data ?? null;
}

export function sumOf(rows: ArchiveCounts): number {
  return Object.values(rows).reduce((sum, count) => sum + count, 0);
}
