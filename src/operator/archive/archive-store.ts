import { type RawBuilder, sql } from 'kysely';
import { z } from 'zod';
import { isConstraintViolation } from '../../database/errors.ts';
import { isSqlite, jsonRows } from '../../database/sql.ts';
import type { Tx } from '../../database/transaction.ts';

// An archive consists of lines of JSON: a header, then each row of each table. PostgreSQL and SQLite have the same.

/** In the order of an archive: a row comes after the rows that it references. */
export const ARCHIVE_TABLES = [
  'usernames',
  'users',
  'invitations',
  'mints',
  'relays',
  'quotes',
  'quote_events',
  'zap_receipts',
  'zap_receipt_deliveries',
  'notification_channels',
  'notifications',
  'audit_events',
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

/** What the header of each version says. */
export const archiveWriterSchema = z.object({
  archive: z.literal('nutpost'),
  nutpost: z.string().regex(/^[\w.+-]{1,40}$/),
});

export const archiveHeaderSchema = z.strictObject({
  ...archiveWriterSchema.shape,
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

const ROWS_PER_PAGE = 1_000;

/** Tables that a running service fills even if it has no users. An import replaces their rows. */
const SELF_POPULATED_TABLES: readonly ArchiveTable[] = ['mints', 'relays', 'treasury_key'];

/** The primary keys of tables whose primary key is not the first column. */
const COMPOSITE_PRIMARY_KEYS: Partial<Record<ArchiveTable, readonly string[]>> = {
  zap_receipt_deliveries: ['receipt', 'relay'],
};

type ColumnTypes = Record<string, 'text' | 'bigint'>;

/** Returns a function that returns the archived columns of a table, in their order, with their types. */
export async function loadArchiveColumns(tx: Tx): Promise<(table: ArchiveTable) => ColumnTypes> {
  const tables = await tx.introspection.getTables();
  return (table) => {
    const columns = tables.find(({ name }) => name === table)?.columns ?? [];
    const types = columns
      .filter(({ name }) => !EXCLUDED_COLUMNS[table]?.includes(name))
      .map(({ name, dataType }) => [name, /^text$/i.test(dataType) ? 'text' : 'bigint'] as const);
    return Object.fromEntries(types);
  };
}

export async function countArchiveRows(tx: Tx): Promise<ArchiveRowCounts> {
  const counts = ARCHIVE_TABLES.map(
    (table) => sql`(select count(*) from ${sql.table(table)}) as ${sql.ref(table)}`,
  );
  const { rows } = await sql<ArchiveRowCounts>`select ${sql.join(counts)}`.execute(tx);
  return rows[0] as ArchiveRowCounts;
}

export async function* readArchivePages(
  tx: Tx,
  table: ArchiveTable,
  columns: ColumnTypes,
  condition: RawBuilder<unknown> = sql`true`,
): AsyncGenerator<ArchiveRow[]> {
  const names = Object.keys(columns);
  const keyNames = COMPOSITE_PRIMARY_KEYS[table] ?? names.slice(0, 1);
  const key = columnList(keyNames);
  let cursorCondition: RawBuilder<unknown> = sql``;
  for (;;) {
    const { rows } = await sql<ArchiveRow>`
      select ${columnList(names)} from ${sql.table(table)} where ${condition} ${cursorCondition}
      order by ${key} limit ${ROWS_PER_PAGE}
    `.execute(tx);
    const lastRow = rows.at(-1);
    if (lastRow === undefined) {
      return;
    }
    yield rows;
    cursorCondition = sql`and (${key}) > (${sql.join(keyNames.map((name) => lastRow[name]))})`;
  }
}

/** Blocks writes by other connections until the transaction ends. SQLite blocks them in any writing transaction. */
export async function lockArchiveTables(tx: Tx): Promise<void> {
  if (!isSqlite(tx)) {
    const tables = sql.join(ARCHIVE_TABLES.map((table) => sql.table(table)));
    await sql`lock table ${tables} in share row exclusive mode`.execute(tx);
  }
}

/** Clears the self-populated tables, and returns the others that have rows. */
export async function clearAndListFilledTables(tx: Tx): Promise<ArchiveTable[]> {
  for (const table of SELF_POPULATED_TABLES) {
    await sql`delete from ${sql.table(table)}`.execute(tx);
  }
  const counts = await countArchiveRows(tx);
  return ARCHIVE_TABLES.filter((table) => counts[table] > 0);
}

/** Returns null, or why the database rejected the rows (without their values); the caller must then roll back. */
export async function insertArchiveRows(
  tx: Tx,
  table: ArchiveTable,
  columns: ColumnTypes,
  rows: readonly ArchiveRow[],
): Promise<string | null> {
  if (rows.some((row) => !matchesColumnTypes(row, columns))) {
    return 'other columns or types';
  }
  const names = columnList(Object.keys(columns));
  const byType = Object.groupBy(Object.keys(columns), (name) => columns[name] ?? 'text');
  try {
    await sql`
      insert into ${sql.table(table)} (${names})
      select ${names} from ${jsonRows(tx, byType, rows)} as added
    `.execute(tx);
    return null;
  } catch (error) {
    if (!isConstraintViolation(error)) {
      throw error;
    }
    // The message contains only the name of the constraint or its columns.
    return (error as Error).message;
  }
}

/** Continues the sequences after the imported ids, and updates the planner's statistics. SQLite needs neither. */
export async function resetSequencesAndAnalyze(tx: Tx): Promise<void> {
  if (isSqlite(tx)) {
    return;
  }
  const { rows: generated } = await sql<{ table: string }>`
    select table_name as table from information_schema.columns
    where table_schema = current_schema() and column_name = 'id' and is_identity = 'YES'
  `.execute(tx);
  for (const { table } of generated) {
    await sql`
      -- Of an empty table there is no row, so its sequence stays.
      select setval(${`${table}_id_seq`}, max(id))
      from ${sql.table(table)} having max(id) is not null
    `.execute(tx);
  }
  for (const table of ARCHIVE_TABLES) {
    await sql`analyze ${sql.table(table)}`.execute(tx);
  }
}

function columnList(names: readonly string[]): RawBuilder<unknown> {
  return sql.join(names.map((name) => sql.ref(name)));
}

/** Checks columns and types before the insert, because PostgreSQL and SQLite convert mismatched values differently. */
function matchesColumnTypes(row: ArchiveRow, columns: ColumnTypes): boolean {
  const entries = Object.entries(columns);
  return (
    Object.keys(row).length === entries.length &&
    entries.every(([name, type]) => {
      const value = row[name];
      return value === null || typeof value === (type === 'text' ? 'string' : 'number');
    })
  );
}
