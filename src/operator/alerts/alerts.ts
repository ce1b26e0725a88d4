import { type BackgroundJob, createDatabaseJob } from '../../background-job.ts';
import type { Clock } from '../../clock.ts';
import { toFlag } from '../../database/sql.ts';
import type { Db } from '../../database/transaction.ts';
import type { Logger } from '../../log.ts';
import type { AlertMessage } from './alert-sender.ts';
import { type AlertState, claimAlert, saveAlert } from './alert-store.ts';

const ALERTS = {
  database_unavailable: { title: 'The database is unavailable', delayMs: 60_000 },
  backup_too_old: { title: 'The backup is too old', delayMs: 0 },
  default_mint_down: { title: 'The default mint is down', delayMs: 10 * 60_000 },
  disk_low: { title: 'The disk is almost full', delayMs: 0 },
  payments_past_deadline: { title: 'Payments were not collected in time', delayMs: 0 },
  treasury_secret_wrong: { title: 'TREASURY_SECRET is wrong', delayMs: 0 },
} as const;

type AlertName = keyof typeof ALERTS;

interface AlertProblem {
  /** When the problem began, if it is known better than from the checks. */
  sinceMs?: number | null;
  text: string;
}

/** `unknown`: neither there nor over, so the alert stays as it is. */
export type AlertCheck = () => Promise<AlertProblem | null | 'unknown'>;

interface AlertContext {
  db: Db;
  /** Null: sent. Otherwise why not. */
  send: (message: AlertMessage) => Promise<string | null>;
  /** Added to each text. */
  siteName: string;
  clock: Clock;
  monotonicMs: () => number;
  log: Logger;
}

/**
 * Sends an alert once when a problem begins, and once when it is over, also if processes check it together or restart. The
 * alert about the database is in the memory of each process.
 */
export function createAlertJob(
  context: AlertContext,
  checks: Readonly<Record<AlertName, AlertCheck>>,
  intervalMs: number,
): BackgroundJob {
  const { database_unavailable: checkDatabase, ...otherChecks } = checks;
  let databaseState: AlertState = { sinceMs: null, text: null, isAnnounced: 0 };
  const work = async () => {
    const name = 'database_unavailable';
    databaseState = await updateAlert(context, name, databaseState, checkDatabase);
    if (databaseState.sinceMs !== null) {
      return;
    }
    for (const [other, check] of Object.entries(otherChecks)) {
      await checkAlert(context, other as AlertName, check);
    }
  };
  const failure = { event: 'alert_check_failed', message: 'a check of the alerts failed' };
  return createDatabaseJob({ work, intervalMs }, failure, context);
}

/** Checks an alert whose state is in the database, unless a process has checked it within the last minute. */
export async function checkAlert(
  context: AlertContext,
  name: AlertName,
  check: AlertCheck,
): Promise<void> {
  const { db, clock } = context;
  const state = await claimAlert(db, name, clock());
  if (state !== null) {
    await saveAlert(db, name, await updateAlert(context, name, state, check));
  }
}

async function updateAlert(
  context: AlertContext,
  name: AlertName,
  state: AlertState,
  check: AlertCheck,
): Promise<AlertState> {
  const problem = await check();
  const nowMs = context.clock();
  let { sinceMs, text } = state;
  if (problem === null) {
    sinceMs = null;
  } else if (problem !== 'unknown') {
    sinceMs ??= problem.sinceMs ?? nowMs;
    ({ text } = problem);
  }
  const isPresent = sinceMs !== null && nowMs - sinceMs >= ALERTS[name].delayMs;
  // A problem that has begun counts only after its delay, but one that was announced is over when it has ended.
  const mustSend = state.isAnnounced ? sinceMs === null : isPresent;
  // If the message is not sent, the next check sends it.
  const isSent = mustSend && (await sendMessage(context, name, sinceMs, text));
  return { sinceMs, text, isAnnounced: isSent ? toFlag(sinceMs !== null) : state.isAnnounced };
}

/** @param sinceMs null: the problem is over */
async function sendMessage(
  { send, siteName, clock, log }: AlertContext,
  name: AlertName,
  sinceMs: number | null,
  text: string | null,
): Promise<boolean> {
  const isOver = sinceMs === null;
  const { title } = ALERTS[name];
  const failure = await send({
    alert: name,
    state: isOver ? 'over' : 'begins',
    title: isOver ? `Over: ${title}` : title,
    text: `${isOver ? `It was: ${text}` : text} (${siteName})`,
    sinceMs: sinceMs ?? clock(),
  });
  if (failure !== null) {
    log.warn(
      { event: 'alert_not_sent', alert: name, reason: failure },
      'cannot send an alert to ALERT_URL; will retry',
    );
  }
  return failure === null;
}
