import { sql } from 'kysely';
import { databaseNow, jsonRows } from '../database/sql.ts';
import type { Db } from '../database/transaction.ts';

/** By the database's clock. Long enough that a process keeps its mints if it pauses for a few seconds. */
const LEASE_DURATION_MS = 15_000;

/**
 * Renews the lease of a process, or creates it. Removes other processes whose leases have expired, unless the process's
 * own lease has expired, too: then the database was probably unavailable to all processes, or its clock has changed
 * after a failover.
 *
 * @returns false if the process had no lease: it is new, or another process removed it and with it its mint leases
 */
export async function renewProcessLease(
  db: Db,
  processId: string,
  status: { untrustedProxy?: string | null; unpaidQuotes?: number } = {},
): Promise<boolean> {
  const now = databaseNow(db);
  const leaseExpiresAt = sql<number>`${now} + ${LEASE_DURATION_MS}`;
  // If the database's clock was set back, the lease of a dead process may expire far in the future.
  const hasExpired = sql<boolean>`
    lease_expires_at not between ${now} and ${now} + ${2 * LEASE_DURATION_MS}`;
  await sql`
    delete from watch_processes where id <> ${processId} and ${hasExpired}
      and not exists (select 1 from watch_processes where id = ${processId} and ${hasExpired})
  `.execute(db);
  const renewed = await db
    .updateTable('watch_processes')
    .set({
      lease_expires_at: leaseExpiresAt,
      untrusted_proxy: status.untrustedProxy ?? null,
      unpaid_quotes: status.unpaidQuotes ?? 0,
    })
    .where('id', '=', processId)
    .executeTakeFirst();
  if (renewed.numUpdatedRows === 1n) {
    return true;
  }
  await db
    .insertInto('watch_processes')
    .values({ id: processId, lease_expires_at: leaseExpiresAt })
    .execute();
  return false;
}

/** Returns the number of processes, and how many unpaid quotes the process that has most of them watches. */
export async function summariseWatchProcesses(db: Db) {
  const { rows } = await sql<{ count: number; maxUnpaidQuotes: number }>`
    select count(*) as count, coalesce(max(unpaid_quotes), 0) as "maxUnpaidQuotes"
    from watch_processes
  `.execute(db);
  return rows[0] ?? { count: 0, maxUnpaidQuotes: 0 };
}

/** Claims free mints. Returns the mints that no other process claimed first. */
export async function claimMints(db: Db, processId: string, mintUrls: readonly string[]) {
  const rows = mintUrls.map((mint_url) => ({ mint_url }));
  const claimed = await sql<{ mint_url: string }>`
    insert into mint_leases (mint_url, process_id)
    select wanted.mint_url, watch_processes.id
    from ${jsonRows(db, { text: ['mint_url'] }, rows)} as wanted
    -- Claims nothing if this process has no lease.
    join watch_processes on watch_processes.id = ${processId}
    where true -- SQLite needs it before "on conflict"
    order by wanted.mint_url
    on conflict (mint_url) do nothing
    returning mint_url
  `.execute(db);
  return claimed.rows.map((row) => row.mint_url);
}

export async function releaseMint(db: Db, processId: string, mintUrl: string): Promise<void> {
  await db
    .deleteFrom('mint_leases')
    .where('mint_url', '=', mintUrl)
    .where('process_id', '=', processId)
    .execute();
}

export async function removeWatchProcess(db: Db, processId: string): Promise<void> {
  await db.deleteFrom('watch_processes').where('id', '=', processId).execute();
}
