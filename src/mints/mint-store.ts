import { sql } from 'kysely';
import { jsonRows } from '../database/sql.ts';
import type { Db, Tx } from '../database/transaction.ts';
import { isKnownToIssueAfterExpiry } from './issue-after-expiry.ts';
import type { MintInfo } from './mint-info.ts';

export async function loadMintInfo(db: Db, mintUrl: string): Promise<MintInfo | null> {
  const row = await db
    .selectFrom('mints')
    .select('info')
    .where('url', '=', mintUrl)
    .executeTakeFirst();
  return row === undefined ? null : JSON.parse(row.info);
}

export async function saveMintInfo(
  db: Db,
  mintUrl: string,
  info: MintInfo,
  nowMs: number,
): Promise<void> {
  const isKnown = isKnownToIssueAfterExpiry(info.version);
  // What was observed of another version no longer counts.
  const isOtherVersion = info.version !== (await loadMintInfo(db, mintUrl))?.version;
  const values = {
    info: JSON.stringify(info),
    fetched_at: nowMs,
    ...((isKnown || isOtherVersion) && { issues_after_expiry: isKnown ? (1 as const) : null }),
  };
  await db
    .insertInto('mints')
    .values({ url: mintUrl, ...values })
    .onConflict((conflict) => conflict.column('url').doUpdateSet(values))
    .execute();
}

/** Stores that a mint has issued a paid quote after its expiry. */
export async function saveIssueAfterExpiry(tx: Tx, mintUrl: string): Promise<void> {
  await tx
    .updateTable('mints')
    .set({ issues_after_expiry: 1 })
    .where('url', '=', mintUrl)
    .where('issues_after_expiry', 'is', null)
    .execute();
}

/** How a mint has answered polls. */
export interface MintHealth {
  answeredAtMs: number | null;
  /** Since when polls fail; null if the last one succeeded. */
  failingSinceMs: number | null;
  /** Why the last poll failed, as one of a few fixed texts. */
  failure: string | null;
}

export async function findMintHealth(db: Db, mintUrl: string): Promise<MintHealth | null> {
  const row = await db
    .selectFrom('mints')
    .select(['answered_at as answeredAtMs', 'failing_since as failingSinceMs', 'failure'])
    .where('url', '=', mintUrl)
    .executeTakeFirst();
  return row ?? null;
}

export async function listFailingMints(db: Db): Promise<string[]> {
  const rows = await db
    .selectFrom('mints')
    .select('url')
    .where('failing_since', 'is not', null)
    .execute();
  return rows.map(({ url }) => url);
}

/** If a mint has not answered this process, keeps the stored answer and an earlier start of the outage. */
export async function saveMintHealth(
  db: Db,
  mints: readonly (MintHealth & { mintUrl: string })[],
): Promise<void> {
  const columns = {
    text: ['mintUrl', 'failure'],
    bigint: ['answeredAtMs', 'failingSinceMs'],
  } as const;
  await sql`
    update mints set
      answered_at = coalesce("answeredAtMs", answered_at),
      failing_since = case when "answeredAtMs" is null
        then coalesce(failing_since, "failingSinceMs") else "failingSinceMs" end,
      failure = polled.failure
    from ${jsonRows(db, columns, mints)} as polled
    where url = "mintUrl"
  `.execute(db);
}
