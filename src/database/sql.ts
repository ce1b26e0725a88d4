import { type Kysely, type RawBuilder, SqliteAdapter, sql } from 'kysely';

// Builds the SQL that differs between PostgreSQL and SQLite. Both understand all other SQL of this service.

type AnyDatabase = Pick<Kysely<unknown>, 'getExecutor'>;

export function isSqlite(db: AnyDatabase): boolean {
  return db.getExecutor().adapter instanceof SqliteAdapter;
}

/** Builds the condition that a column has one of these values. They are one parameter of a prepared statement. */
export function columnInValues<Value extends string | number>(
  db: AnyDatabase,
  column: string,
  type: Value extends string ? 'text' : 'bigint',
  values: readonly Value[],
): RawBuilder<boolean> {
  const rows = values.map((value) => ({ value }));
  const valueTable = jsonRows(db, { [type]: ['value'] }, rows);
  return columnInSubquery(db, column, sql`select value from ${valueTable} as listed`);
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

/** The names of columns by their type. */
type JsonColumns<Column extends string> = Readonly<
  Partial<Record<'text' | 'bigint', readonly Column[]>>
>;

/** Builds a subquery that returns these rows, which are one parameter: `from ${jsonRows(...)} as added`. */
export function jsonRows<Column extends string>(
  db: AnyDatabase,
  { text = [], bigint = [] }: JsonColumns<Column>,
  rows: readonly Readonly<Record<Column, string | number | null>>[],
): RawBuilder<unknown> {
  const json = JSON.stringify(rows);
  if (isSqlite(db)) {
    const fields = [...text, ...bigint].map(
      (name) => sql`value ->> ${sql.lit(name)} as ${sql.ref(name)}`,
    );
    return sql`(select ${sql.join(fields)} from json_each(${json}))`;
  }
  const fields = [
    ...text.map((name) => sql`${sql.ref(name)} text`),
    ...bigint.map((name) => sql`${sql.ref(name)} bigint`),
  ];
  return sql`(select * from json_to_recordset(${json}::json) as record (${sql.join(fields)}))`;
}

/** Builds the locking clause of a `select`. Empty on SQLite, which runs only one writing transaction at a time. */
export function lockRows(
  db: AnyDatabase,
  lock: 'for update' | 'for no key update' | 'for update skip locked',
): RawBuilder<unknown> {
  return sql.raw(isSqlite(db) ? '' : lock);
}

/** Builds the current time by the database's clock, which all processes share, in milliseconds since 1970. */
export function databaseNow(db: AnyDatabase): RawBuilder<number> {
  return isSqlite(db)
    ? sql<number>`cast(unixepoch('subsec') * 1000 as integer)`
    : sql<number>`cast(extract(epoch from clock_timestamp()) * 1000 as bigint)`;
}

/** Builds {@link databaseNow}, evaluated once per statement, so that PostgreSQL can compare it with an index. */
export function statementNow(db: AnyDatabase): RawBuilder<number> {
  return sql<number>`(select ${databaseNow(db)})`;
}

/** Builds the UTC date of a time in milliseconds since 1970, such as `2026-08-01`. */
export function utcDate(db: AnyDatabase, column: string): RawBuilder<string> {
  return isSqlite(db)
    ? sql<string>`strftime('%Y-%m-%d', ${sql.ref(column)} / 1000, 'unixepoch')`
    : sql<string>`to_char(to_timestamp(${sql.ref(column)} / 1000) at time zone 'UTC', 'YYYY-MM-DD')`;
}

/** Converts a boolean to its column value. SQLite has no booleans. */
export function toFlag(value: boolean): 0 | 1 {
  return value ? 1 : 0;
}
