import { type RawBuilder, sql, type TableMetadata } from 'kysely';
import { BaseStore, isConstraintViolation, isSqlite, jsonRows } from '../../database/sql.ts';
import {
  ARCHIVE_TABLES,
  type ArchiveRow,
  type ArchiveRowCounts,
  type ArchiveTable,
  EXCLUDED_COLUMNS,
} from './archive-format.ts';

/** An export needs few queries, but only one or two megabytes of memory. */
const ROWS_PER_PAGE = 1_000;

/** Tables into which a running service inserts rows even if it has no users. */
const SELF_POPULATED_TABLES: readonly ArchiveTable[] = ['mints', 'relays', 'treasury_key'];

/** Tables whose `id` column has a sequence on PostgreSQL. */
const IDENTITY_TABLES = ['quotes', 'quote_events'];

/** The primary keys of tables whose primary key is not the first column. */
const COMPOSITE_PRIMARY_KEYS: Partial<Record<ArchiveTable, readonly string[]>> = {
  zap_receipt_deliveries: ['receipt', 'relay'],
};

/** The archived columns of a table, in table order. */
type ColumnTypes = Record<string, 'text' | 'bigint'>;

/** Exports and imports all tables. All calls must be in one transaction. */
export class ArchiveStore extends BaseStore {
  #tables: TableMetadata[] | null = null;

  async countRows(): Promise<ArchiveRowCounts> {
    const counts = ARCHIVE_TABLES.map(
      (table) => sql`(select count(*) from ${sql.table(table)}) as ${sql.ref(table)}`,
    );
    const { rows } = await sql<ArchiveRowCounts>`select ${sql.join(counts)}`.execute(this.db);
    return rows[0] as ArchiveRowCounts;
  }

  /** Yields the rows of a table in pages, ordered by primary key. */
  async *readPages(table: ArchiveTable): AsyncGenerator<ArchiveRow[]> {
    const names = Object.keys(await this.#loadColumnTypes(table));
    const keyNames = COMPOSITE_PRIMARY_KEYS[table] ?? names.slice(0, 1);
    const key = columnList(keyNames);
    let cursorCondition: RawBuilder<unknown> = sql``;
    for (;;) {
      const { rows } = await sql<ArchiveRow>`
        select ${columnList(names)} from ${sql.table(table)} ${cursorCondition}
        order by ${key} limit ${ROWS_PER_PAGE}
      `.execute(this.db);
      const lastRow = rows.at(-1);
      if (lastRow === undefined) {
        return;
      }
      yield rows;
      cursorCondition = sql`where (${key}) > (${sql.join(keyNames.map((name) => lastRow[name]))})`;
    }
  }

  /** Blocks writes by other connections until the transaction ends. SQLite blocks them in any writing transaction. */
  async lockTables(): Promise<void> {
    if (!isSqlite(this.db)) {
      const tables = sql.join(ARCHIVE_TABLES.map((table) => sql.table(table)));
      await sql`lock table ${tables} in share row exclusive mode`.execute(this.db);
    }
  }

  /** Empties the {@link SELF_POPULATED_TABLES}, then returns the tables that still have rows. */
  async clearSelfPopulatedAndListFilled(): Promise<ArchiveTable[]> {
    for (const table of SELF_POPULATED_TABLES) {
      await sql`delete from ${sql.table(table)}`.execute(this.db);
    }
    const counts = await this.countRows();
    return ARCHIVE_TABLES.filter((table) => counts[table] > 0);
  }

  /**
   * Inserts rows into a table.
   *
   * @returns null, or why the database rejected the rows (without their values); the caller must then roll back
   */
  async insertRows(table: ArchiveTable, rows: readonly ArchiveRow[]): Promise<string | null> {
    const columns = await this.#loadColumnTypes(table);
    if (rows.some((row) => !matchesColumnTypes(row, columns))) {
      return 'other columns or types';
    }
    const names = columnList(Object.keys(columns));
    try {
      await sql`
        insert into ${sql.table(table)} (${names})
        select ${names} from ${jsonRows(this.db, columns, rows)} as added
      `.execute(this.db);
      return null;
    } catch (error) {
      if (!isConstraintViolation(error)) {
        throw error;
      }
      // The message contains only the name of the constraint or its columns.
      return (error as Error).message;
    }
  }

  /** On PostgreSQL, sets each sequence to the largest id and updates the planner's statistics. Omitted on SQLite. */
  async resetSequencesAndAnalyze(): Promise<void> {
    if (isSqlite(this.db)) {
      // nutpost never updates SQLite's statistics. Without statistics, SQLite uses the indexes that the queries need.
      return;
    }
    for (const table of IDENTITY_TABLES) {
      await sql`
        select setval(${`${table}_id_seq`}, max(id))
        from ${sql.table(table)} having max(id) is not null
      `.execute(this.db);
    }
    for (const table of ARCHIVE_TABLES) {
      await sql`analyze ${sql.table(table)}`.execute(this.db);
    }
  }

  /** Allows long statements in the transaction, and long waits for input or output between statements. */
  async disableTimeouts(): Promise<void> {
    if (!isSqlite(this.db)) {
      await sql`set local statement_timeout = 0`.execute(this.db);
      await sql`set local idle_in_transaction_session_timeout = 0`.execute(this.db);
    }
  }

  async #loadColumnTypes(table: ArchiveTable): Promise<ColumnTypes> {
    this.#tables ??= await this.db.introspection.getTables();
    const columns = this.#tables.find(({ name }) => name === table)?.columns ?? [];
    const excluded = EXCLUDED_COLUMNS[table] ?? [];
    return Object.fromEntries(
      columns
        .filter(({ name }) => !excluded.includes(name))
        .map(({ name, dataType }) => [name, dataType.toLowerCase() === 'text' ? 'text' : 'bigint']),
    );
  }
}

function columnList(names: readonly string[]): RawBuilder<unknown> {
  return sql.join(names.map((name) => sql.ref(name)));
}

/** Checks the types, because the two databases convert mismatched values differently. */
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
