import { type Kysely, type RawBuilder, SqliteAdapter, sql } from 'kysely';

// SQL that differs between PostgreSQL and SQLite. Both understand all other SQL of this service.

type AnyDatabase = Pick<Kysely<unknown>, 'getExecutor'>;

export function isSqlite(db: AnyDatabase): boolean {
  return db.getExecutor().adapter instanceof SqliteAdapter;
}

/** Builds the condition that a column has one of these values, which are a single parameter of a prepared statement. */
export function columnInValues<Value extends string | number>(
  db: AnyDatabase,
  column: string,
  type: Value extends string ? 'text' : 'bigint',
  values: readonly Value[],
): RawBuilder<boolean> {
  const rows = values.map((value) => ({ value }));
  const listed = jsonRows(db, { value: type }, rows);
  return columnInSubquery(db, column, sql`select value from ${listed} as listed`);
}

export function columnInSubquery(
  db: AnyDatabase,
  column: string,
  subquery: RawBuilder<unknown>,
): RawBuilder<boolean> {
  // PostgreSQL looks up each value of an array in the index. With `in`, it may scan the whole table.
  return isSqlite(db)
    ? sql<boolean>`${sql.ref(column)} in (${subquery})`
    : sql<boolean>`${sql.ref(column)} = any(array(${subquery}))`;
}

type JsonColumnType = 'text' | 'bigint';

/** Builds a subquery that returns these rows from a single parameter: `from ${jsonRows(...)} as added`. */
export function jsonRows<Column extends string>(
  db: AnyDatabase,
  columns: Readonly<Record<Column, JsonColumnType>>,
  rows: readonly Readonly<Record<Column, string | number | null>>[],
): RawBuilder<unknown> {
  const json = JSON.stringify(rows);
  const entries = Object.entries<JsonColumnType>(columns);
  if (isSqlite(db)) {
    const fields = entries.map(([name]) => sql`value ->> ${sql.lit(name)} as ${sql.ref(name)}`);
    return sql`(select ${sql.join(fields)} from json_each(${json}))`;
  }
  const fields = entries.map(([name, type]) => sql`${sql.ref(name)} ${sql.raw(type)}`);
  return sql`(select * from json_to_recordset(${json}::json) as record (${sql.join(fields)}))`;
}

/** Builds the locking clause of a `select`. Empty on SQLite, which runs only one writing transaction at a time. */
export function lockRows(
  db: AnyDatabase,
  lock: 'for update' | 'for no key update' | 'for update skip locked',
): RawBuilder<unknown> {
  return sql.raw(isSqlite(db) ? '' : lock);
}

/** Builds an expression for the time of the database's clock, which all processes share, in ms since 1970. */
export function databaseNow(db: AnyDatabase): RawBuilder<number> {
  return isSqlite(db)
    ? sql<number>`cast(unixepoch('subsec') * 1000 as integer)`
    : sql<number>`cast(extract(epoch from clock_timestamp()) * 1000 as bigint)`;
}

/** Evaluated once per statement, so that PostgreSQL can use an index on times. */
export function statementNow(db: AnyDatabase): RawBuilder<number> {
  return sql<number>`(select ${databaseNow(db)})`;
}

export function toFlag(value: boolean): 0 | 1 {
  return value ? 1 : 0;
}
