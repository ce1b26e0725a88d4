import { type Kysely, sql } from 'kysely';
import type { Schema } from './schema.ts';

/** Longer than any one request to a mint takes; the holder renews its lease before each request. */
const LEASE_MS = 30_000;

/** A lease that ends later than this from now was taken by a process with a wrong clock. */
const MAX_CLOCK_SKEW_MS = 5 * 60_000;

/** The journals whose open entries are jobs. */
type Journal = 'username_purchases' | 'treasury_withdrawals';

/**
 * Leases on the open entries of a journal, so that one run at a time works on each. If a process dies,
 * another one takes over when the lease expires. Two runs at once would do no harm, only repeat requests.
 */
export class JobLease {
  readonly #db: Kysely<Schema>;
  readonly #journal: Journal;

  constructor(db: Kysely<Schema>, journal: Journal) {
    this.#db = db;
    this.#journal = journal;
  }

  /**
   * Takes the lease of an open entry.
   *
   * @param holder identifies one run
   * @returns false if another run holds it, or the entry is settled
   */
  async take(id: string, holder: string, nowMs: number): Promise<boolean> {
    const taken = await sql`
      update ${sql.table(this.#journal)}
      set lease_holder = ${holder}, lease_until = ${new Date(nowMs + LEASE_MS)}
      where id = ${id} and state = 'open' and ${isFree(nowMs)}
    `.execute(this.#db);
    return taken.numAffectedRows === 1n;
  }

  /**
   * Extends a lease.
   *
   * @returns false if another run has taken it since, or the entry is settled
   */
  async renew(id: string, holder: string, nowMs: number): Promise<boolean> {
    const renewed = await sql`
      update ${sql.table(this.#journal)} set lease_until = ${new Date(nowMs + LEASE_MS)}
      where id = ${id} and lease_holder = ${holder} and state = 'open'
    `.execute(this.#db);
    return renewed.numAffectedRows === 1n;
  }

  /**
   * Releases an entry that cannot be settled now.
   *
   * @param retry.reason why, in a few words
   * @param retry.nextTryAtMs when it is due again
   * @param retry.refusedAtMs when the mint first refused a repeated request; null if it did not
   */
  async postpone(
    id: string,
    holder: string,
    retry: { reason: string; nextTryAtMs: number; refusedAtMs: number | null },
  ): Promise<void> {
    const refusedAt = retry.refusedAtMs === null ? null : new Date(retry.refusedAtMs);
    await sql`
      update ${sql.table(this.#journal)}
      set lease_holder = null, lease_until = null, tries = tries + 1, reason = ${retry.reason},
        next_try_at = ${new Date(retry.nextTryAtMs)}, refused_at = ${refusedAt}
      where id = ${id} and lease_holder = ${holder} and state = 'open'
    `.execute(this.#db);
  }

  /**
   * Lists the entries that are due and free, the longest waiting first.
   *
   * @param latestMs entries planned later than this are due too: a wrong clock planned them
   */
  async listDue(nowMs: number, latestMs: number, limit: number): Promise<string[]> {
    const { rows } = await sql<{ id: string }>`
      select id from ${sql.table(this.#journal)}
      where state = 'open' and ${isFree(nowMs)}
        and (next_try_at <= ${new Date(nowMs)} or next_try_at > ${new Date(latestMs)})
      order by next_try_at
      limit ${limit}
    `.execute(this.#db);
    return rows.map(({ id }) => id);
  }

  /** Releases every entry. Only for an embedded database, which no other process can use. */
  async releaseAll(): Promise<void> {
    await sql`
      update ${sql.table(this.#journal)} set lease_holder = null, lease_until = null
      where lease_holder is not null
    `.execute(this.#db);
  }
}

/** No run holds the lease, or it has expired. */
function isFree(nowMs: number) {
  return sql<boolean>`(
    lease_until is null
    or lease_until not between ${new Date(nowMs)} and ${new Date(nowMs + LEASE_MS + MAX_CLOCK_SKEW_MS)}
  )`;
}
