import { sql } from 'kysely';

/**
 * Texts for `in`, as one parameter: the statement is the same for any number of them, so that a server
 * reads and keeps one.
 */
export function anyOf(texts: readonly string[]) {
  return sql<string>`(select json_array_elements_text(${JSON.stringify(texts)}::json))`;
}

/**
 * Ids for `=`, as one parameter. As an array, because PostgreSQL reckons with a hundred where it is given rows: of
 * a table with some thousand, it would keep a plan that reads them all.
 */
export function anyOfIds(ids: readonly number[]) {
  return sql<number>`any(array(
    select value::bigint from json_array_elements_text(${JSON.stringify(ids)}::json)
  ))`;
}
