import { type Kysely, sql } from 'kysely';
import { databaseNow } from '../database/dialect.ts';
import type { Schema } from '../database/schema.ts';
import { HISTORY_DAYS } from '../domain/history.ts';

/**
 * Before when things may be forgotten: {@link HISTORY_DAYS} by the database's clock as well, so that a
 * process whose clock jumped ahead does not forget all.
 *
 * @param beforeMs by the clock of the process (milliseconds since 1970)
 */
export function longAgo(db: Kysely<Schema>, beforeMs: number) {
  const byDatabase = sql`${databaseNow(db)} - ${HISTORY_DAYS * 24 * 3_600_000}`;
  return sql<number>`case when ${byDatabase} < ${beforeMs} then ${byDatabase} else ${beforeMs} end`;
}
