import { sql } from 'kysely';
import type { Database } from '../../src/store/database.ts';

/** How many connections wait for a lock. Of this database: other tests wait for locks on the same server. */
export async function waitingBackends({ db }: Database): Promise<number> {
  const { rows } = await sql`
    select pid from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`.execute(db);
  return rows.length;
}
