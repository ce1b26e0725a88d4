import { sql } from 'kysely';
import { DatabaseStore, databaseNow, jsonRows } from '../database/sql.ts';

/**
 * How long a lease lasts, by the database's clock; then other processes take over the mints. A process
 * keeps its mints through a pause or a slow database of a few seconds.
 */
const ALIVE_FOR_MS = 15_000;

/** Which process watches which mint. Each process has one row; its leases are deleted with that row. */
export class LeaseStore extends DatabaseStore {
  /**
   * Renews the lease of a process, and removes the processes whose lease has expired. A late renewal
   * succeeds as long as no other process has removed the row.
   *
   * @returns whether the process had a row; without one it holds no mint
   */
  async keepAlive(processId: string): Promise<boolean> {
    const now = databaseNow(this.db);
    const aliveUntil = sql<number>`${now} + ${ALIVE_FOR_MS}`;
    // One that lasts longer is of a dead process, from before the database's clock was set back.
    await this.db
      .deleteFrom('watch_processes')
      .where('id', '<>', processId)
      .where(sql<boolean>`alive_until not between ${now} and ${now} + ${2 * ALIVE_FOR_MS}`)
      .execute();
    const renewed = await this.db
      .updateTable('watch_processes')
      .set({ alive_until: aliveUntil })
      .where('id', '=', processId)
      .executeTakeFirst();
    if (renewed.numUpdatedRows === 1n) {
      return true;
    }
    await this.db
      .insertInto('watch_processes')
      .values({ id: processId, alive_until: aliveUntil })
      .execute();
    return false;
  }

  async countProcesses(): Promise<number> {
    const { count } = await this.db
      .selectFrom('watch_processes')
      .select((select) => select.fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow();
    return count;
  }

  /**
   * Claims mints that no process has.
   *
   * @returns the claimed mints; other processes claimed the rest first
   */
  async claim(processId: string, mintUrls: readonly string[]): Promise<string[]> {
    const { rows } = await sql<{ mint_url: string }>`
      insert into mint_leases (mint_url, owner)
      select wanted.mint_url, watch_processes.id
      from ${jsonRows(this.db, { mint_url: 'text' }, mintUrls.map(toRow))} as wanted
      join watch_processes on watch_processes.id = ${processId}
      where true
      order by wanted.mint_url
      on conflict (mint_url) do nothing
      returning mint_url
    `.execute(this.db);
    return rows.map((row) => row.mint_url);
  }

  async release(processId: string, mintUrl: string): Promise<void> {
    await this.db
      .deleteFrom('mint_leases')
      .where('mint_url', '=', mintUrl)
      .where('owner', '=', processId)
      .execute();
  }

  /** Removes a process, which releases all its mints. */
  async leave(processId: string): Promise<void> {
    await this.db.deleteFrom('watch_processes').where('id', '=', processId).execute();
  }
}

function toRow(mintUrl: string) {
  return { mint_url: mintUrl };
}
