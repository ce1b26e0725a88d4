import { z } from 'zod';
import { tryParseJson } from '../../untrusted-text.ts';

// An archive contains the database as lines of JSON, for backups and for moving to another database. The first line
// is the header. Every other line is a row of a table, as an object with a key for each column. The format is the
// same for PostgreSQL and SQLite.

/** The tables in the order of an archive. A row comes after the rows that it references. */
export const ARCHIVE_TABLES = [
  'usernames',
  'users',
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

/** Columns that an archive omits, because only running processes use them. */
export const EXCLUDED_COLUMNS: Partial<Record<ArchiveTable, readonly string[]>> = {
  quotes: ['address_hashes'],
  username_purchases: ['lease_holder', 'lease_expires_at'],
};

export type ArchiveRowCounts = Record<ArchiveTable, number>;

export type ArchiveRow = Record<string, string | number | null>;

const headerSchema = z.strictObject({
  archive: z.literal('nutpost'),
  nutpost: z.string().regex(/^[\w.+-]{1,40}$/),
  made_at: z.iso.datetime(),
  rows: z.record(z.enum(ARCHIVE_TABLES), z.int().min(0)),
});

const rowSchema = z.strictObject({
  table: z.enum(ARCHIVE_TABLES),
  row: z.record(z.string(), z.union([z.string(), z.int(), z.null()])),
});

export type ArchiveHeader = z.infer<typeof headerSchema>;

/** Returns the first line, with a line break. @param version the version of this program */
export function serializeArchiveHeader(
  rows: ArchiveRowCounts,
  version: string,
  nowMs: number,
): string {
  const madeAt = new Date(nowMs).toISOString();
  return `${JSON.stringify({ archive: 'nutpost', nutpost: version, made_at: madeAt, rows })}\n`;
}

export function serializeArchiveRow(table: ArchiveTable, row: ArchiveRow): string {
  return `${JSON.stringify({ table, row })}\n`;
}

/** Parses the first line. Returns null if it is not the header of an archive with these tables. */
export function parseArchiveHeader(text: string): ArchiveHeader | null {
  return headerSchema.safeParse(tryParseJson(text)).data ?? null;
}

/** Parses a line after the first. Returns null if it is not a row of a table. */
export function parseArchiveRow(text: string): { table: ArchiveTable; row: ArchiveRow } | null {
  return rowSchema.safeParse(tryParseJson(text)).data ?? null;
}

export function sumRowCounts(rows: ArchiveRowCounts): number {
  return Object.values(rows).reduce((sum, count) => sum + count, 0);
}
