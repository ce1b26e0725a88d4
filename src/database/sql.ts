import { type Kysely, type RawBuilder, SqliteAdapter, sql } from 'kysely';
import { isSqliteConstraint } from './errors.ts';
import type { Schema } from './schema.ts';

// The SQL that PostgreSQL and SQLite write differently. Everything else is in the subset that both understand.

/** Any database, or a transaction on it. */
type AnyDb = Pick<Kysely<unknown>, 'getExecutor'>;

/** Whether this is SQLite, rather than PostgreSQL. */
export function isSqlite(db: AnyDb): boolean {
  return db.getExecutor().adapter instanceof SqliteAdapter;
}

/**
 * A condition: a column has one of these values. They are one parameter, so that the statement is the same for any
 * number of them and stays prepared.
 */
export function isAny<Value extends string | number>(
  db: AnyDb,
  column: string,
  type: Value extends string ? 'text' : 'bigint',
  values: readonly Value[],
): RawBuilder<boolean> {
  const rows = values.map((value) => ({ value }));
  return isAnyOf(db, column, sql`select value from ${jsonRows(db, { value: type }, rows)} as one`);
}

/** A condition: a column has one of the values that a subquery returns. */
export function isAnyOf(
  db: AnyDb,
  column: string,
  subquery: RawBuilder<unknown>,
): RawBuilder<boolean> {
  // As an array, because PostgreSQL then looks up each value in the index. With `in` it may read the whole table.
  return isSqlite(db)
    ? sql<boolean>`${sql.ref(column)} in (${subquery})`
    : sql<boolean>`${sql.ref(column)} = any(array(${subquery}))`;
}

/** The type of a column in {@link jsonRows}. */
type JsonColumn = 'text' | 'bigint';

/**
 * Rows as one parameter, in parentheses, to select from: `from ${jsonRows(...)} as added`.
 *
 * @param columns the names of the columns, which are also the keys of the rows, and their types
 */
export function jsonRows<Column extends string>(
  db: AnyDb,
  columns: Readonly<Record<Column, JsonColumn>>,
  rows: readonly Readonly<Record<Column, string | number | null>>[],
): RawBuilder<unknown> {
  const list = JSON.stringify(rows);
  const entries = Object.entries<JsonColumn>(columns);
  if (isSqlite(db)) {
    const fields = entries.map(([name]) => sql`value ->> ${sql.lit(name)} as ${sql.ref(name)}`);
    return sql`(select ${sql.join(fields)} from json_each(${list}))`;
  }
  const fields = entries.map(([name, type]) => sql`${sql.ref(name)} ${sql.raw(type)}`);
  return sql`(select * from json_to_recordset(${list}::json) as record (${sql.join(fields)}))`;
}

/**
 * The end of a `select` that locks its rows until the transaction ends. SQLite needs none, because a transaction that
 * writes is alone from its beginning.
 */
export function lockRows(
  db: AnyDb,
  lock: 'for update' | 'for no key update' | 'for update skip locked',
): RawBuilder<unknown> {
  return sql.raw(isSqlite(db) ? '' : lock);
}

/** The clock of the database, in milliseconds since 1970. All processes on a server share it. */
export function databaseNow(db: AnyDb): RawBuilder<number> {
  return isSqlite(db)
    ? sql<number>`cast(unixepoch('subsec') * 1000 as integer)`
    : sql<number>`cast(extract(epoch from clock_timestamp()) * 1000 as bigint)`;
}

/** PostgreSQL's class of `integrity_constraint_violation`. */
const POSTGRES_CONSTRAINT = /^23/;

/** Whether the database rejected a change because rows would contradict each other. */
export function isConstraintViolation(error: unknown): boolean {
  const isOfPostgres =
    error instanceof Error && 'code' in error && POSTGRES_CONSTRAINT.test(String(error.code));
  return isOfPostgres || isSqliteConstraint(error);
}

/** A truth value as it is stored. */
export function toFlag(value: boolean): 0 | 1 {
  return value ? 1 : 0;
}

/** A part of {@link Store}, on the database or in a transaction. */
export abstract class DatabaseStore {
  protected readonly db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.db = db;
  }
}
