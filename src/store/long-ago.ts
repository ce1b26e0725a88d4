import { sql } from 'kysely';
import { HISTORY_DAYS } from '../domain/history.ts';

/**
 * Before when things may be forgotten: {@link HISTORY_DAYS} by the database's clock as well, so that a
 * process whose clock jumped ahead does not forget all.
 *
 * @param beforeMs by the clock of the process (milliseconds since 1970)
 */
export function longAgo(beforeMs: number) {
  return sql<Date>`least(
    ${new Date(beforeMs)}, statement_timestamp() - make_interval(days => ${HISTORY_DAYS}))`;
}
