import { type Kysely, sql } from 'kysely';
import type { Schema } from '../database/schema.ts';
import {
  ARCHIVE_TABLES,
  type ArchiveCounts,
  type ArchiveRow,
  type ArchiveTable,
  LEFT_OUT,
} from '../domain/archive.ts';

/** Enough that a query for each costs little, few enough to be a megabyte or two. */
const PAGE_ROWS = 1_000;

/** PostgreSQL's classes of `data_exception` and of `integrity_constraint_violation`. */
const REFUSED_VALUES = /^2[23]/;

/** What a service learns by itself, also before its first user. */
const LEARNT_TABLES: readonly ArchiveTable[] = ['mints', 'relays', 'treasury_key'];

/** Columns with sequences of their own. */
const NUMBERED_TABLES = ['quotes', 'quote_events'];

/** All rows of all tables, on their way out or in. Everything here belongs into one transaction. */
export class ArchiveStore {
  readonly #db: Kysely<Schema>;
  #columns: Map<string, string[]> | null = null;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  /** Makes the transaction see the database as it is at this moment. Must be its first statement. */
  async freeze(): Promise<void> {
    await sql`set transaction isolation level repeatable read, read only`.execute(this.#db);
    await sql`set local timezone to 'UTC'`.execute(this.#db);
    await this.#liftTimeouts();
  }

  /** Counts the rows of each table. */
  async counts(): Promise<ArchiveCounts> {
    const counts = ARCHIVE_TABLES.map(
      (table) => sql`(select count(*) from ${sql.table(table)}) as ${sql.ref(table)}`,
    );
    const { rows } = await sql<ArchiveCounts>`select ${sql.join(counts)}`.execute(this.#db);
    return rows[0] as ArchiveCounts;
  }

  /** The rows of a table in JSON, page by page. */
  async *pages(table: ArchiveTable): AsyncGenerator<string[]> {
    const columns = (await this.#columnsOf(table)).map((column) => sql.ref(column));
    await sql`
      declare archived no scroll cursor for
      select to_json(kept)::text as row
      from (
        select ${sql.join(columns)} from ${sql.table(table)} order by ${sql.join(columns.slice(0, 2))}
      ) as kept
    `.execute(this.#db);
    for (;;) {
      const { rows } = await sql<{ row: string }>`
        fetch ${sql.lit(PAGE_ROWS)} from archived`.execute(this.#db);
      if (rows.length === 0) {
        break;
      }
      yield rows.map(({ row }) => row);
    }
    await sql`close archived`.execute(this.#db);
  }

  /** Keeps every other connection from writing until the transaction ends. */
  async lock(): Promise<void> {
    await this.#liftTimeouts();
    const tables = sql.join(ARCHIVE_TABLES.map((table) => sql.table(table)));
    await sql`lock table ${tables} in share row exclusive mode`.execute(this.#db);
  }

  /** Lists the tables that have rows; deletes what a service learns by itself. */
  async filledTables(): Promise<ArchiveTable[]> {
    for (const table of LEARNT_TABLES) {
      await sql`delete from ${sql.table(table)}`.execute(this.#db);
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
    const names = await this.#columnsOf(table);
    if (rows.some((row) => !hasColumns(row, names))) {
      return 'other columns';
    }
    const columns = sql.join(names.map((column) => sql.ref(column)));
    try {
      await sql`
        insert into ${sql.table(table)} (${columns}) overriding system value
        select ${columns}
        from json_populate_recordset(null::${sql.table(table)}, ${JSON.stringify(rows)}::json)
      `.execute(this.#db);
      return null;
    } catch (error) {
      const { code = '', constraint } = error as Error & { code?: string; constraint?: string };
      if (!REFUSED_VALUES.test(code)) {
        throw error;
      }
      return constraint ?? `SQLSTATE ${code}`;
    }
  }

  /** Continues the numbering after the last row, and updates the planner's statistics. */
  async finish(): Promise<void> {
    for (const table of NUMBERED_TABLES) {
      await sql`
        select setval(${`${table}_id_seq`}, max(id))
        from ${sql.table(table)} having max(id) is not null
      `.execute(this.#db);
    }
    await sql`analyze ${sql.join(ARCHIVE_TABLES.map((table) => sql.table(table)))}`.execute(
      this.#db,
    );
  }

  /** The columns that an archive has, in the order of the table. */
  async #columnsOf(table: ArchiveTable): Promise<string[]> {
    if (this.#columns === null) {
      const tables = await this.#db.introspection.getTables();
      this.#columns = new Map(
        tables.map(({ name, columns }) => [name, columns.map((column) => column.name)]),
      );
    }
    const all = this.#columns.get(table) ?? [];
    return all.filter((column) => LEFT_OUT[table]?.includes(column) !== true);
  }

  /** Reading or writing all rows may take longer than any other statement. */
  async #liftTimeouts(): Promise<void> {
    await sql`set local statement_timeout = 0`.execute(this.#db);
    await sql`set local idle_in_transaction_session_timeout = 0`.execute(this.#db);
  }
}

function hasColumns(row: ArchiveRow, columns: readonly string[]): boolean {
  return (
    Object.keys(row).length === columns.length &&
    columns.every((column) => Object.hasOwn(row, column))
  );
}
