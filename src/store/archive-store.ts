import { type Kysely, sql } from 'kysely';
import { ARCHIVE_TABLES, type ArchiveTable, archivedColumns } from '../domain/archive.ts';
import type { Schema } from './schema.ts';

/** Enough that a question for each costs little, few enough to be a megabyte or two. */
const PAGE_ROWS = 1_000;

/** PostgreSQL's classes of `data_exception` and of `integrity_constraint_violation`. */
const REFUSED_VALUES = /^2[23]/;

/** What a service that nobody has used yet learns by itself. */
const LEARNT_TABLES: ReadonlySet<ArchiveTable> = new Set(['mints', 'relays', 'treasury_key']);

/** Far more than anybody mends by hand. */
const MAX_CONTRADICTIONS = 10;

/** What came of adding rows. */
export type Addition =
  | { outcome: 'added' }
  /** The database refuses the one at this place, from 0. Others may be there: undo the transaction. */
  | { outcome: 'refused'; place: number; why: string };

/** All rows of all tables, on their way out or in. Everything here belongs into one transaction. */
export class ArchiveStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  /** From now on the transaction sees everything as it is at this moment; its first statement. */
  async freeze(): Promise<void> {
    await sql`set transaction isolation level repeatable read, read only`.execute(this.#db);
    await sql`set local timezone to 'UTC'`.execute(this.#db);
    await this.#takeTime();
  }

  /** How many rows a table has. */
  async count(table: ArchiveTable): Promise<number> {
    const { rows } = await sql<{ count: number }>`
      select count(*) as count from ${sql.table(table)}`.execute(this.#db);
    return rows[0]?.count ?? 0;
  }

  /** The rows of a table in JSON, page by page. */
  async *pages(table: ArchiveTable): AsyncGenerator<string[]> {
    const columns = sql.join(archivedColumns(table).map((column) => sql.ref(column)));
    await sql`
      declare archived no scroll cursor for
      select to_json(kept)::text as row
      from (select ${columns} from ${sql.table(table)} order by ${ORDERS[table] ?? sql`1`}) as kept
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

  /** Keeps everybody else from writing until the transaction ends. */
  async lock(): Promise<void> {
    await this.#takeTime();
    const tables = sql.join(ARCHIVE_TABLES.map((table) => sql.table(table)));
    await sql`lock table ${tables} in share row exclusive mode`.execute(this.#db);
  }

  /** The tables in which there is something that a service does not learn by itself. */
  async filledTables(): Promise<ArchiveTable[]> {
    const tables = ARCHIVE_TABLES.filter((table) => !LEARNT_TABLES.has(table));
    const selects = tables.map(
      (table) => sql`exists (select 1 from ${sql.table(table)}) as ${sql.ref(table)}`,
    );
    const { rows } = await sql<Record<string, boolean>>`select ${sql.join(selects)}`.execute(
      this.#db,
    );
    return tables.filter((table) => rows[0]?.[table] === true);
  }

  /** Forgets what a service learnt by itself. */
  async forgetLearnt(): Promise<void> {
    for (const table of LEARNT_TABLES) {
      await sql`delete from ${sql.table(table)}`.execute(this.#db);
    }
  }

  /** Adds rows to a table, in the columns' own names. */
  async add(
    table: ArchiveTable,
    rows: readonly Readonly<Record<string, unknown>>[],
  ): Promise<Addition> {
    const refusal = await this.#tryToAdd(table, rows);
    if (refusal === null) {
      return { outcome: 'added' };
    }
    for (const [place, row] of rows.entries()) {
      const why = await this.#tryToAdd(table, [row]);
      if (why !== null) {
        return { outcome: 'refused', place, why };
      }
    }
    throw new Error(`${table}: rows were refused together (${refusal}), and not one by one`);
  }

  /** After the last row: what is numbered goes on from there, and the database knows what it has. */
  async settle(): Promise<void> {
    for (const [table, column, sequence] of SEQUENCES) {
      await sql`
        select setval(${sequence}, max(${sql.ref(column)}))
        from ${sql.table(table)} having max(${sql.ref(column)}) is not null
      `.execute(this.#db);
    }
    await sql`analyze ${sql.join(ARCHIVE_TABLES.map((table) => sql.table(table)))}`.execute(
      this.#db,
    );
  }

  /** Recipients (hex) whose counter of payments is not that of their list, the first few. */
  async miscounted(): Promise<string[]> {
    const { rows } = await sql<{ pubkey: string }>`
      select pubkey
      from (
        select pubkey, count(*) as listed, max(paid_seq) as last
        from quotes where paid_seq is not null group by pubkey
      ) as lists
      full join (select pubkey, paid_count from users where paid_count > 0) as counters
        using (pubkey)
      where listed is distinct from paid_count or last is distinct from paid_count
      order by pubkey limit ${MAX_CONTRADICTIONS}
    `.execute(this.#db);
    return rows.map(({ pubkey }) => pubkey);
  }

  /** Names that are in use and resolve to nobody, or resolve and are not in use: the first few. */
  async misnamed(): Promise<string[]> {
    const { rows } = await sql<{ name: string }>`
      select coalesce(used.name, users.name) as name
      from (select name, pubkey from usernames where status = 'in_use') as used
      full join (select name, pubkey from users where name is not null) as users
        using (name, pubkey)
      where used.name is null or users.name is null
      order by name limit ${MAX_CONTRADICTIONS}
    `.execute(this.#db);
    return rows.map(({ name }) => name);
  }

  /** A large table takes as long as it takes, and so does whoever writes or reads the archive meanwhile. */
  async #takeTime(): Promise<void> {
    await sql`set local statement_timeout = 0`.execute(this.#db);
    await sql`set local idle_in_transaction_session_timeout = 0`.execute(this.#db);
  }

  /** @returns why they are refused, without their values; null where they were added */
  async #tryToAdd(
    table: ArchiveTable,
    rows: readonly Readonly<Record<string, unknown>>[],
  ): Promise<string | null> {
    const columns = sql.join(archivedColumns(table).map((column) => sql.ref(column)));
    await sql`savepoint addition`.execute(this.#db);
    try {
      await sql`
        insert into ${sql.table(table)} (${columns}) overriding system value
        select ${columns}
        from json_populate_recordset(null::${sql.table(table)}, ${JSON.stringify(rows)}::json)
      `.execute(this.#db);
      await sql`release savepoint addition`.execute(this.#db);
      return null;
    } catch (error) {
      const { code = '', constraint } = error as Error & { code?: string; constraint?: string };
      if (!REFUSED_VALUES.test(code)) {
        throw error;
      }
      await sql`rollback to savepoint addition`.execute(this.#db);
      return constraint ?? `SQLSTATE ${code}`;
    }
  }
}

/** How rows of a table are ordered that is not by its first column. */
const ORDERS: Partial<Record<ArchiveTable, ReturnType<typeof sql>>> = {
  zap_receipt_deliveries: sql`receipt, relay`,
};

/** Which columns are numbered by which sequence. */
const SEQUENCES: readonly [table: ArchiveTable, column: string, sequence: string][] = [
  ['usernames', 'wish', 'username_wishes'],
  ['quotes', 'id', 'quotes_id_seq'],
  ['quote_events', 'id', 'quote_events_id_seq'],
];
