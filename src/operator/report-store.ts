import { sql } from 'kysely';
import { utcDate } from '../database/sql.ts';
import type { Db, Tx } from '../database/transaction.ts';

// Reports for the operator, which may read whole tables.

export interface UserFilter {
  isBlocked: boolean;
  isMember: boolean;
  /** Only users with payments that are not collected. */
  isUncollected: boolean;
  /** The users' mint; null: any. */
  mintUrl: string | null;
}

/** Returns a page of users, ordered by key, that begins after a key. `defaultMintUrl`: of users who chose no mint. */
export async function listUsers(
  db: Db,
  { isBlocked, isMember, isUncollected, mintUrl }: UserFilter,
  page: { afterPubkey: string; limit: number; defaultMintUrl: string },
) {
  const userMint = sql`coalesce(mint_url, ${page.defaultMintUrl})`;
  const uncollected = sql`
    from quotes where quotes.pubkey = users.pubkey and paid_seq is not null and state <> 'ISSUED'`;
  const conditions = [
    sql`pubkey > ${page.afterPubkey}`,
    ...(isBlocked ? [sql`blocked_at is not null and unblocked_at is null`] : []),
    ...(isMember ? [sql`member_since is not null`] : []),
    ...(isUncollected ? [sql`exists (select 1 ${uncollected})`] : []),
    ...(mintUrl === null ? [] : [sql`${userMint} = ${mintUrl}`]),
  ];
  const { rows } = await sql<{
    pubkey: string;
    name: string | null;
    mintUrl: string;
    paymentCount: number;
    lastPaidAtMs: number | null;
    uncollectedSat: number;
    blockedAtMs: number | null;
    memberSinceMs: number | null;
    memberNote: string | null;
  }>`
    select pubkey, name, ${userMint} as "mintUrl", paid_count as "paymentCount",
      last_paid_at as "lastPaidAtMs",
      cast((select coalesce(sum(amount_sat), 0) ${uncollected}) as bigint) as "uncollectedSat",
      case when unblocked_at is null then blocked_at end as "blockedAtMs",
      member_since as "memberSinceMs", member_note as "memberNote"
    from users where ${sql.join(conditions, sql` and `)} order by pubkey limit ${page.limit}
  `.execute(db);
  return rows;
}

/** `period`: a UTC date such as `2026-08-01`, or a month such as `2026-08`. Recipients and mints are counted once. */
export interface PeriodStats {
  period: string;
  payments: number;
  sat: number;
  recipients: number;
  mints: number;
}

/** Counts the payments since a time by day or month, the oldest period first. The last row has the period `total`. */
export async function readStats(
  tx: Tx,
  unit: 'day' | 'month',
  sinceMs: number,
): Promise<PeriodStats[]> {
  const counts = sql`
    count(*) as payments, cast(coalesce(sum(amount_sat), 0) as bigint) as sat,
    count(distinct pubkey) as recipients, count(distinct mint_url) as mints
    from quotes where paid_seq is not null and paid_at >= ${sinceMs}
      -- There is an index on both columns. Reading all quotes would block a service with SQLite for seconds.
      and pubkey in (select pubkey from users where last_paid_at >= ${sinceMs})`;
  const period = sql`substr(${utcDate(tx, 'paid_at')}, 1, ${sql.lit(unit === 'day' ? 10 : 7)})`;
  const periods = await sql<PeriodStats>`
    select ${period} as period, ${counts} group by 1 order by 1`.execute(tx);
  const total = await sql<PeriodStats>`select 'total' as period, ${counts}`.execute(tx);
  return [...periods.rows, ...total.rows];
}
