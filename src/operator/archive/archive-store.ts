import { type RawBuilder, sql } from 'kysely';
import { DatabaseStore, isConstraintViolation, isSqlite, jsonRows } from '../../database/sql.ts';
import {
  ARCHIVE_TABLES,
  type ArchiveCounts,
  type ArchiveRow,
  type ArchiveTable,
  LEFT_OUT,
} from './archive-format.ts';

/** Enough that a query for each costs little, few enough to be a megabyte or two. */
const PAGE_ROWS = 1_000;

/** What a service learns by itself, also before its first user. */
const LEARNT_TABLES: readonly ArchiveTable[] = ['mints', 'relays', 'treasury_key'];

/** Columns with sequences of their own on PostgreSQL. */
const NUMBERED_TABLES = ['quotes', 'quote_events'];

/** The primary keys that are not the first column alone. */
const COMPOSITE_KEYS: Partial<Record<ArchiveTable, readonly string[]>> = {
  zap_receipt_deliveries: ['receipt', 'relay'],
};

/** The columns of a table that an archive has, in the order of the table, and their types. */
type Columns = Record<string, 'text' | 'bigint'>;

/** All rows of all tables, on their way out or in. Everything here belongs into one transaction. */
export class ArchiveStore extends DatabaseStore {
  #columns: Map<string, Columns> | null = null;

  async counts(): Promise<ArchiveCounts> {
    const counts = ARCHIVE_TABLES.map(
      (table) => sql`(select count(*) from ${sql.table(table)}) as ${sql.ref(table)}`,
    );
    const { rows } = await sql<ArchiveCounts>`select ${sql.join(counts)}`.execute(this.db);
    return rows[0] as ArchiveCounts;
  }

  /** Yields the rows of a table in the order of its primary key, page by page. */
  async *pages(table: ArchiveTable): AsyncGenerator<ArchiveRow[]> {
    const names = Object.keys(await this.#columnsOf(table));
    const keyNames = COMPOSITE_KEYS[table] ?? names.slice(0, 1);
    const key = columnList(keyNames);
    let after: RawBuilder<unknown> = sql``;
    for (;;) {
      const { rows } = await sql<ArchiveRow>`
        select ${columnList(names)} from ${sql.table(table)} ${after}
        order by ${key} limit ${PAGE_ROWS}
      `.execute(this.db);
      const last = rows.at(-1);
      if (last === undefined) {
        return;
      }
      yield rows;
      after = sql`where (${key}) > (${sql.join(keyNames.map((name) => last[name]))})`;
    }
  }

  /** Keeps other connections from writing until the transaction ends, as any transaction that writes does on SQLite. */
  async lock(): Promise<void> {
    if (!isSqlite(this.db)) {
      const tables = sql.join(ARCHIVE_TABLES.map((table) => sql.table(table)));
      await sql`lock table ${tables} in share row exclusive mode`.execute(this.db);
    }
  }

  /** Lists the tables that have rows; deletes what a service learns by itself. */
  async filledTables(): Promise<ArchiveTable[]> {
    for (const table of LEARNT_TABLES) {
      await sql`delete from ${sql.table(table)}`.execute(this.db);
    }
    const counts = await this.counts();
    return ARCHIVE_TABLES.filter((table) => counts[table] > 0);
  }

  /**
   * Adds rows to a table.
   *
   * @returns why the database rejects them, without their values: the caller must roll the transaction back; null if
   *   they were added
   */
  async add(table: ArchiveTable, rows: readonly ArchiveRow[]): Promise<string | null> {
    const columns = await this.#columnsOf(table);
    if (rows.some((row) => !hasColumns(row, columns))) {
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
      // It names the constraint, or its columns.
      return (error as Error).message;
    }
  }

  /** On PostgreSQL, continues the numbering after the last row, and updates the planner's statistics. */
  async finish(): Promise<void> {
    if (isSqlite(this.db)) {
      // Nothing would update its statistics later. Without any, it uses the indexes that the queries are written for.
      return;
    }
    for (const table of NUMBERED_TABLES) {
      await sql`
        select setval(${`${table}_id_seq`}, max(id))
        from ${sql.table(table)} having max(id) is not null
      `.execute(this.db);
    }
    for (const table of ARCHIVE_TABLES) {
      await sql`analyze ${sql.table(table)}`.execute(this.db);
    }
  }

  /** Lets statements take as long as they need, and the transaction wait for input or output. */
  async liftTimeouts(): Promise<void> {
    if (!isSqlite(this.db)) {
      await sql`set local statement_timeout = 0`.execute(this.db);
      await sql`set local idle_in_transaction_session_timeout = 0`.execute(this.db);
    }
  }

  async #columnsOf(table: ArchiveTable): Promise<Columns> {
    if (this.#columns === null) {
      const tables = await this.db.introspection.getTables();
      this.#columns = new Map(
        tables.map(({ name, columns }) => [
          name,
          Object.fromEntries(
            columns.map(({ name, dataType }) => [
              name,
              dataType.toLowerCase() === 'text' ? 'text' : 'bigint',
            ]),
          ),
        ]),
      );
    }
    const all = Object.entries(this.#columns.get(table) ?? {});
    return Object.fromEntries(all.filter(([name]) => LEFT_OUT[table]?.includes(name) !== true));
  }
}

function columnList(names: readonly string[]): RawBuilder<unknown> {
  return sql.join(names.map((name) => sql.ref(name)));
}

/** Checks the types too: either database would convert some values, but not the same ones. */
function hasColumns(row: ArchiveRow, columns: Columns): boolean {
  const entries = Object.entries(columns);
  return (
    Object.keys(row).length === entries.length &&
    entries.every(([name, type]) => {
      const value = row[name];
      return value === null || typeof value === (type === 'text' ? 'string' : 'number');
    })
  );
}
