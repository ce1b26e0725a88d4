import { type Kysely, sql } from 'kysely';

/**
 * Each payment changes its recipient's counters, which no index is of: where there is room on the same page, no index
 * has to be changed either. In pages that are full already, room comes with the first changes.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table users set (fillfactor = 70)`.execute(db);
}
