import { type Kysely, sql } from 'kysely';
import type { Schema } from '../database/schema.ts';
import type { OutputPlan } from '../domain/ecash.ts';

/** Longer than any one request to a mint takes; the holder renews its lease before each request. */
const LEASE_MS = 30_000;

/** An open entry of a journal. */
export interface OpenSwap {
  id: string;
  mintUrl: string;
  /** The proofs that it spends, sealed. */
  inputs: string;
  /** Every plan of outputs that may have been sent to the mint, newest last. */
  plans: readonly OutputPlan[];
  /** How many attempts to settle it have failed. */
  tries: number;
  /** When the mint first refused a repeated request; null if it did not. */
  refusedAtMs: number | null;
}

/**
 * A journal of swaps at mints: purchases or withdrawals.
 *
 * Leases let one run at a time work on an open entry. If a process dies, another one takes over when the lease
 * expires. The changes of a run whose lease was taken are rejected.
 */
export class SwapJournal {
  protected readonly db: Kysely<Schema>;
  readonly #table: 'username_purchases' | 'treasury_withdrawals';

  constructor(db: Kysely<Schema>, table: 'username_purchases' | 'treasury_withdrawals') {
    this.db = db;
    this.#table = table;
  }

  /**
   * Takes the lease of an open entry.
   *
   * @param holder identifies one run
   * @returns false if another run holds it, or the entry is settled
   */
  async take(id: string, holder: string, nowMs: number): Promise<boolean> {
    const taken = await sql`
      update ${sql.table(this.#table)}
      set lease_holder = ${holder}, lease_until = ${nowMs + LEASE_MS}
      where id = ${id} and state = 'open' and ${isFree(nowMs)}
    `.execute(this.db);
    return taken.numAffectedRows === 1n;
  }

  /**
   * Extends a lease.
   *
   * @returns false if another run has taken it, or the entry is settled
   */
  renew(id: string, holder: string, nowMs: number): Promise<boolean> {
    return this.update(id, holder, { lease_until: nowMs + LEASE_MS });
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
    retry: { reason: string; tries: number; nextTryAtMs: number; refusedAtMs: number | null },
  ): Promise<void> {
    await this.update(id, holder, {
      lease_holder: null,
      lease_until: null,
      tries: retry.tries,
      reason: retry.reason,
      next_try_at: retry.nextTryAtMs,
      refused_at: retry.refusedAtMs,
    });
  }

  /** Lists the entries that are due and free, the longest waiting first. */
  async listDue(nowMs: number, limit: number): Promise<string[]> {
    const { rows } = await sql<{ id: string }>`
      select id from ${sql.table(this.#table)}
      where state = 'open' and ${isFree(nowMs)} and next_try_at <= ${nowMs}
      order by next_try_at
      limit ${limit}
    `.execute(this.db);
    return rows.map(({ id }) => id);
  }

  /**
   * Stores all plans of outputs, before the newest is sent to the mint.
   *
   * @returns false if another run has taken over
   */
  setPlans(id: string, holder: string, plans: readonly OutputPlan[]): Promise<boolean> {
    return this.update(id, holder, { outputs: JSON.stringify(plans) });
  }

  /** Ends an entry. @returns false if another run has taken over */
  protected settle(
    id: string,
    holder: string,
    end: { state: 'done' | 'undone'; reason: string | null; nowMs: number },
    change: Readonly<Record<string, string | number | null>>,
  ): Promise<boolean> {
    return this.update(id, holder, {
      state: end.state,
      reason: end.reason,
      settled_at: end.nowMs,
      lease_holder: null,
      lease_until: null,
      next_try_at: null,
      ...change,
    });
  }

  /** Changes an open entry. @returns false if another run has taken over */
  protected async update(
    id: string,
    holder: string,
    change: Readonly<Record<string, string | number | null>>,
  ): Promise<boolean> {
    const values = Object.entries(change).map(
      ([column, value]) => sql`${sql.ref(column)} = ${value}`,
    );
    const updated = await sql`
      update ${sql.table(this.#table)} set ${sql.join(values)}
      where id = ${id} and lease_holder = ${holder} and state = 'open'
    `.execute(this.db);
    return updated.numAffectedRows === 1n;
  }
}

/** The columns of a new entry that give its lease to a run. */
export function firstLease(holder: string, nowMs: number) {
  return {
    created_at: nowMs,
    next_try_at: nowMs,
    lease_holder: holder,
    lease_until: nowMs + LEASE_MS,
  };
}

/** No run holds the lease, or it has expired. */
function isFree(nowMs: number) {
  return sql<boolean>`coalesce(lease_until, 0) < ${nowMs}`;
}
