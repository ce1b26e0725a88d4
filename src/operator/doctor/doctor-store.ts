import { sql } from 'kysely';
import type { Config } from '../../config.ts';
import { databaseNow } from '../../database/sql.ts';
import type { Db, Tx } from '../../database/transaction.ts';
import { listFailingMints } from '../../mints/mint-store.ts';
import { listWatchedMints } from '../../quotes/watched-quote-store.ts';
import { EXPIRY_WARNING_MS } from '../../usernames/limits.ts';
import { listExpiringEcash } from '../../usernames/treasury-store.ts';

export interface PostgresReport {
  version: string;
  majorVersion: number;
  nowMs: number;
  /** Whether committed transactions survive a crash. */
  isDurable: boolean;
  /** True for a standby server, a read-only database, or a user without the right to write. */
  isReadOnly: boolean;
  isStandby: boolean;
  /** Whether commits wait for a standby. `none`: no standby is connected. */
  replication: 'none' | 'synchronous' | 'asynchronous';
  maxConnections: number;
  usedConnections: number;
}

export type ServiceState = Awaited<ReturnType<typeof readServiceState>>;

/** Writes a message to PostgreSQL's WAL, which changes nothing. */
export async function writeToWal(tx: Tx): Promise<void> {
  await sql`select pg_logical_emit_message(true, 'nutpost doctor', '')`.execute(tx);
}

export async function readPostgres(db: Db): Promise<PostgresReport> {
  const { rows } = await sql<PostgresReport>`
    select
      current_setting('server_version') as "version",
      current_setting('server_version_num')::int / 10000 as "majorVersion",
      ${databaseNow(db)} as "nowMs",
      current_setting('fsync') = 'on' and current_setting('full_page_writes') = 'on'
        and current_setting('synchronous_commit') <> 'off' as "isDurable",
      pg_is_in_recovery() or current_setting('transaction_read_only') = 'on'
        or not coalesce(has_table_privilege(to_regclass('quotes'), 'insert'), true) as "isReadOnly",
      pg_is_in_recovery() as "isStandby",
      case
        -- Without the right to see it, the state of a standby is null: count it as connected.
        when not exists (select from pg_stat_replication where state is null or state = 'streaming')
          then 'none'
        when current_setting('synchronous_standby_names') = ''
          or current_setting('synchronous_commit') in ('local', 'off') then 'asynchronous'
        else 'synchronous'
      end as "replication",
      current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int as "maxConnections",
      -- pg_stat_activity hides the connections of other users.
      (select coalesce(sum(numbackends), 0) from pg_stat_database)::int as "usedConnections"
  `.execute(db);
  return rows[0] as PostgresReport;
}

/** `corruption`: the first damage found; null if the file is intact, or too large to check within seconds. */
export async function readSqlite(db: Db): Promise<{ version: string; corruption: string | null }> {
  const { rows } = await sql<{ version: string; bytes: number }>`
    select sqlite_version() as version, page_count * page_size as bytes
    from pragma_page_count, pragma_page_size
  `.execute(db);
  const { version, bytes } = rows[0] as (typeof rows)[number];
  if (bytes > 256 * 1024 * 1024) {
    return { version, corruption: null };
  }
  const check = await sql<{ quick_check: string }>`pragma quick_check(1)`.execute(db);
  const result = check.rows[0]?.quick_check ?? 'ok';
  return { version, corruption: result === 'ok' ? null : result };
}

export async function readServiceState(db: Db, { defaultMintUrl, allowedMints }: Config) {
  const running = await db
    .selectFrom('watch_processes')
    .select('untrusted_proxy')
    .where('lease_expires_at', '>', databaseNow(db))
    .execute();
  const locking = await db
    .selectFrom('users')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('mint_url', 'is', null)
    .where('lock_quotes', '=', 1)
    .executeTakeFirstOrThrow();
  const member = await db
    .selectFrom('users')
    .select('pubkey')
    .where('member_since', 'is not', null)
    .where((eb) => eb.or([eb('blocked_at', 'is', null), eb('unblocked_at', 'is not', null)]))
    // Whether zaps are supported may depend on the mint, so that of most users comes first.
    .orderBy(sql`mint_url is not null`)
    .limit(1)
    .executeTakeFirst();
  const failing = new Set(await listFailingMints(db));
  const watchedMints = (await listWatchedMints(db)).map(({ mintUrl }) => mintUrl);
  return {
    runningProcessCount: running.length,
    untrustedProxies: new Set(running.flatMap(({ untrusted_proxy }) => untrusted_proxy ?? [])),
    /** Those who lock their quotes and have chosen no mint. */
    lockingUserCount: Number(locking.count),
    defaultMint: await readIssueAfterExpiry(db, defaultMintUrl),
    /** First those that did not answer their last poll. */
    watchedMints: watchedMints.toSorted((a, b) => Number(failing.has(b)) - Number(failing.has(a))),
    usersAtOtherMints: allowedMints === null ? [] : await listUsersAtOtherMints(db, allowedMints),
    memberPubkey: member?.pubkey ?? null,
    expiringEcash: await listExpiringEcash(db, Date.now() + EXPIRY_WARNING_MS),
  };
}

/** Lists users whose mint is not allowed any more, by mint; at most a hundred. */
function listUsersAtOtherMints(db: Db, allowedMints: readonly string[]) {
  return db
    .selectFrom('users')
    .select(['pubkey', 'name', 'mint_url as mintUrl'])
    .where('mint_url', 'not in', allowedMints)
    .$narrowType<{ mintUrl: string }>()
    .orderBy('mint_url')
    .limit(100)
    .execute();
}

/** `quoteLifetimeMs`: of the newest watched quote; null if there is none. */
async function readIssueAfterExpiry(db: Db, mintUrl: string) {
  const mint = await db
    .selectFrom('mints')
    .select('issues_after_expiry')
    .where('url', '=', mintUrl)
    .executeTakeFirst();
  const newestQuote = await db
    .selectFrom('quotes')
    .select(['created_at', 'expires_at'])
    .where('mint_url', '=', mintUrl)
    .where('watch_until', 'is not', null)
    .orderBy('id', 'desc')
    .executeTakeFirst();
  return {
    issuesAfterExpiry: mint?.issues_after_expiry === 1,
    quoteLifetimeMs: newestQuote ? newestQuote.expires_at - newestQuote.created_at : null,
  };
}
