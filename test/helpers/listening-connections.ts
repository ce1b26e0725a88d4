import { sql } from 'kysely';
import type { Database } from '../../src/store/database.ts';

/** The connections of a database on which processes listen, by the process of the server that has each. */
export async function listeningConnections({ db }: Database): Promise<number[]> {
  const { rows } = await sql<{ pid: number }>`
    select pid from pg_stat_activity
    where datname = current_database() and application_name = 'nutpost listening'`.execute(db);
  return rows.map(({ pid }) => pid);
}
