import { z } from 'zod';

// An archive is lines of JSON, the same for PostgreSQL and SQLite: a header, then a line for each row of a table.

/** In the order of an archive: a row comes after the rows that it references. */
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

export const archiveHeaderSchema = z.strictObject({
  archive: z.literal('nutpost'),
  nutpost: z.string().regex(/^[\w.+-]{1,40}$/),
  made_at: z.iso.datetime(),
  rows: z.record(z.enum(ARCHIVE_TABLES), z.int().min(0)),
});

export type ArchiveHeader = z.infer<typeof archiveHeaderSchema>;
export type ArchiveRowCounts = ArchiveHeader['rows'];

export const archiveLineSchema = z.strictObject({
  table: z.enum(ARCHIVE_TABLES),
  row: z.record(z.string(), z.union([z.string(), z.int(), z.null()])),
});

export type ArchiveRow = z.infer<typeof archiveLineSchema>['row'];
