import { sql } from 'kysely';

/**
 * Texts for `in`, as one parameter: the statement is the same for any number of them, so that a server
 * reads and keeps one.
 */
export function anyOf(texts: readonly string[]) {
  return sql<string>`(select json_array_elements_text(${JSON.stringify(texts)}::json))`;
}
