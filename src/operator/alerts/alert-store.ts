import { sql } from 'kysely';
import type { Db } from '../../database/transaction.ts';
import { COLLECT_BY } from '../../quotes/collect-deadline-store.ts';

export interface AlertState {
  /** When the problem began; null if there is none. */
  sinceMs: number | null;
  text: string | null;
  /** Whether the operator was last sent that the problem began, and not that it is over. */
  isAnnounced: 0 | 1;
}

/** Processes check an alert at most once in this time, together. Less than a minute, the interval of each process. */
const CHECK_INTERVAL_MS = 45_000;

/** Returns the state of an alert for this process to check; null if a process has checked it recently. */
export async function claimAlert(db: Db, name: string, nowMs: number): Promise<AlertState | null> {
  const state = await db
    .insertInto('alerts')
    .values({ name, checked_at: nowMs })
    .onConflict((conflict) =>
      conflict
        .column('name')
        .doUpdateSet({ checked_at: nowMs })
        .where('alerts.checked_at', '<=', nowMs - CHECK_INTERVAL_MS),
    )
    .returning(['since as sinceMs', 'text', 'announced as isAnnounced'])
    .executeTakeFirst();
  return state ?? null;
}

export async function saveAlert(db: Db, name: string, state: AlertState): Promise<void> {
  await db
    .updateTable('alerts')
    .set({ since: state.sinceMs, text: state.text, announced: state.isAnnounced })
    .where('name', '=', name)
    .execute();
}

const DAY_MS = 24 * 60 * 60_000;

/** Returns the number and sum of the payments whose deadline passed in the last day before they were collected. */
export async function readPaymentsPastDeadline(db: Db, nowMs: number) {
  const { rows } = await sql<{ count: number; sat: number }>`
    select count(*) as count, cast(coalesce(sum(amount_sat), 0) as bigint) as sat
    from quotes where watch_until is not null
      and ${COLLECT_BY} < ${nowMs} and ${COLLECT_BY} >= ${nowMs - DAY_MS}
  `.execute(db);
  return rows[0] ?? { count: 0, sat: 0 };
}
