import { sql, type Updateable } from 'kysely';
import type { Schema } from '../database/schema.ts';
import { DatabaseStore, databaseNow, isAny, jsonRows } from '../database/sql.ts';
import type { OutputPlan } from '../mints/ecash.ts';
import { HISTORY_MS } from '../retention.ts';

/** Longer than any one request to a mint takes; the holder renews its lease before each request. */
const LEASE_MS = 30_000;

/** A purchase before its token is redeemed. */
export interface NewPurchase {
  id: string;
  /** Hex. */
  pubkey: string;
  /** In lower case. */
  name: string;
  priceSat: number;
  /** Face value of the token. */
  paidSat: number;
  mintUrl: string;
  createdAtMs: number;
  /** The proofs of the token, sealed. */
  token: string;
  plan: OutputPlan;
  /** The run that gets the lease. */
  leaseHolder: string;
}

/** An open purchase, with what is needed to settle it. */
export interface OpenPurchase {
  id: string;
  pubkey: string;
  name: string;
  mintUrl: string;
  /** The proofs of the token, sealed. */
  token: string;
  /** Every plan of outputs that may have been sent to the mint, newest last. */
  plans: readonly OutputPlan[];
  /** How many attempts to settle it have failed. */
  tries: number;
  /** When the mint first refused a repeated request; null if it did not. */
  refusedAtMs: number | null;
}

/** A purchase that some proofs pay for. */
export interface PurchaseByProofs {
  id: string;
  pubkey: string;
  name: string;
  state: 'open' | 'done' | 'undone';
}

/** An open purchase, for the operator. Times in milliseconds since 1970. */
export interface WaitingPurchase {
  id: string;
  name: string;
  mintUrl: string;
  paidSat: number;
  createdAtMs: number;
  tries: number;
  /** Why it is retried, in a few words; null if it has just begun. */
  reason: string | null;
  nextTryAtMs: number | null;
}

/** What names earned. */
export interface Earnings {
  namesSold: number;
  /** Face value of the tokens that paid for them. */
  paidSat: number;
}

/**
 * The journal of names that are paid for.
 *
 * Leases let one run at a time work on an open purchase. If a process dies, another one takes over when the lease
 * expires. The changes of a run whose lease was taken are rejected.
 */
export class PurchaseStore extends DatabaseStore {
  /** Writes a purchase, whose lease goes to `leaseHolder`. */
  async open(purchase: NewPurchase): Promise<void> {
    await this.db
      .insertInto('username_purchases')
      .values({
        id: purchase.id,
        pubkey: purchase.pubkey,
        name: purchase.name,
        price_sat: purchase.priceSat,
        paid_sat: purchase.paidSat,
        mint_url: purchase.mintUrl,
        state: 'open',
        token: purchase.token,
        outputs: JSON.stringify([purchase.plan]),
        created_at: purchase.createdAtMs,
        next_try_at: purchase.createdAtMs,
        lease_holder: purchase.leaseHolder,
        lease_until: purchase.createdAtMs + LEASE_MS,
      })
      .execute();
  }

  /**
   * Records which proofs pay for a purchase.
   *
   * @param ys of its proofs (NUT-07)
   * @returns false if some pay for another one: the caller must roll the transaction back
   */
  async claimProofs(id: string, ys: readonly string[]): Promise<boolean> {
    // In one order everywhere, so that two purchases with the same proofs never wait for each other.
    const rows = ys.map((y) => ({ y, purchase: id }));
    const inserted = await sql`
      insert into username_purchase_proofs (y, purchase)
      select y, purchase from ${jsonRows(this.db, { y: 'text', purchase: 'text' }, rows)} as claimed
      where true
      order by y
      on conflict (y) do nothing
    `.execute(this.db);
    return inserted.numAffectedRows === BigInt(ys.length);
  }

  /** Finds the purchases that any of these proofs pay for. */
  async findByProofs(ys: readonly string[]): Promise<PurchaseByProofs[]> {
    return await this.db
      .selectFrom('username_purchases')
      .select(['id', 'pubkey', 'name', 'state'])
      .where('id', 'in', (nested) =>
        nested
          .selectFrom('username_purchase_proofs')
          .select('purchase')
          .where(isAny(this.db, 'y', 'text', ys)),
      )
      .execute();
  }

  /** Reads an open purchase; null if there is none with this id. */
  async findOpen(id: string): Promise<OpenPurchase | null> {
    const row = await this.db
      .selectFrom('username_purchases')
      .select([
        'id',
        'pubkey',
        'name',
        'mint_url as mintUrl',
        'token',
        'outputs',
        'tries',
        'refused_at as refusedAtMs',
      ])
      .where('id', '=', id)
      .where('state', '=', 'open')
      .where('token', 'is not', null)
      .$narrowType<{ token: string }>()
      .executeTakeFirst();
    return row === undefined ? null : { ...row, plans: JSON.parse(row.outputs) };
  }

  /**
   * Takes the lease of an open purchase.
   *
   * @param holder identifies one run
   * @returns false if another run holds it, or the purchase is settled
   */
  async take(id: string, holder: string, nowMs: number): Promise<boolean> {
    const taken = await this.db
      .updateTable('username_purchases')
      .set({ lease_holder: holder, lease_until: nowMs + LEASE_MS })
      .where('id', '=', id)
      .where('state', '=', 'open')
      .where(isFree(nowMs))
      .executeTakeFirst();
    return taken.numUpdatedRows === 1n;
  }

  /**
   * Extends a lease.
   *
   * @returns false if another run has taken it, or the purchase is settled
   */
  renew(id: string, holder: string, nowMs: number): Promise<boolean> {
    return this.#update(id, holder, { lease_until: nowMs + LEASE_MS });
  }

  /**
   * Releases a purchase that cannot be settled now.
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
    await this.#update(id, holder, {
      lease_holder: null,
      lease_until: null,
      tries: retry.tries,
      reason: retry.reason,
      next_try_at: retry.nextTryAtMs,
      refused_at: retry.refusedAtMs,
    });
  }

  /** Lists the purchases that are due and free, the longest waiting first. */
  async listDue(nowMs: number, limit: number): Promise<string[]> {
    const rows = await this.db
      .selectFrom('username_purchases')
      .select('id')
      .where('state', '=', 'open')
      .where(isFree(nowMs))
      .where('next_try_at', '<=', nowMs)
      .orderBy('next_try_at')
      .limit(limit)
      .execute();
    return rows.map(({ id }) => id);
  }

  /**
   * Stores all plans of outputs, before the newest is sent to the mint.
   *
   * @returns false if another run has taken over
   */
  setPlans(id: string, holder: string, plans: readonly OutputPlan[]): Promise<boolean> {
    return this.#update(id, holder, { outputs: JSON.stringify(plans) });
  }

  /**
   * Completes a purchase. Its proofs stay on record, so that they cannot pay for another one.
   *
   * @returns false if another run has taken over
   */
  finish(id: string, holder: string, nowMs: number): Promise<boolean> {
    return this.#end(id, holder, { state: 'done', reason: null, settled_at: nowMs });
  }

  /**
   * Gives a purchase up: its token was not redeemed and can pay for another purchase.
   *
   * @param reason in a few words
   * @returns false if another run has taken over
   */
  async undo(id: string, holder: string, reason: string, nowMs: number): Promise<boolean> {
    const isUndone = await this.#end(id, holder, { state: 'undone', reason, settled_at: nowMs });
    if (isUndone) {
      await this.db.deleteFrom('username_purchase_proofs').where('purchase', '=', id).execute();
    }
    return isUndone;
  }

  /**
   * Deletes purchases that were undone longer ago than {@link HISTORY_MS}.
   *
   * @returns whether there may be more than `limit` of them
   */
  async pruneUndone(limit: number): Promise<boolean> {
    const pruned = await this.db
      .deleteFrom('username_purchases')
      .where('id', 'in', (old) =>
        old
          .selectFrom('username_purchases')
          .select('id')
          .where('state', '=', 'undone')
          .where('settled_at', '<', sql<number>`${databaseNow(this.db)} - ${HISTORY_MS}`)
          .limit(limit),
      )
      .executeTakeFirst();
    return pruned.numDeletedRows === BigInt(limit);
  }

  /** Lists open purchases, oldest first. */
  async listWaiting(limit: number): Promise<WaitingPurchase[]> {
    return await this.db
      .selectFrom('username_purchases')
      .select([
        'id',
        'name',
        'mint_url as mintUrl',
        'paid_sat as paidSat',
        'created_at as createdAtMs',
        'tries',
        'reason',
        'next_try_at as nextTryAtMs',
      ])
      .where('state', '=', 'open')
      .orderBy('created_at')
      .limit(limit)
      .execute();
  }

  /** What names earned so far. */
  async earnings(): Promise<Earnings> {
    const row = await this.db
      .selectFrom('username_purchases')
      .select((select) => [
        select.fn.sum<string | null>('paid_sat').as('paid'),
        select.fn.countAll<number>().as('namesSold'),
      ])
      .where('state', '=', 'done')
      .executeTakeFirstOrThrow();
    return { namesSold: row.namesSold, paidSat: Number(row.paid ?? 0) };
  }

  /** Counts the purchases of a key by state. */
  async count(pubkey: string): Promise<Record<'open' | 'done' | 'undone', number>> {
    const rows = await this.db
      .selectFrom('username_purchases')
      .select((select) => ['state', select.fn.countAll<number>().as('count')])
      .where('pubkey', '=', pubkey)
      .groupBy('state')
      .execute();
    const counts = { open: 0, done: 0, undone: 0 };
    for (const { state, count } of rows) {
      counts[state] = count;
    }
    return counts;
  }

  #end(
    id: string,
    holder: string,
    end: { state: 'done' | 'undone'; reason: string | null; settled_at: number },
  ): Promise<boolean> {
    const ended = { token: null, lease_holder: null, lease_until: null, next_try_at: null };
    return this.#update(id, holder, { ...end, ...ended });
  }

  /** Changes an open purchase. @returns false if another run has taken over */
  async #update(
    id: string,
    holder: string,
    change: Updateable<Schema['username_purchases']>,
  ): Promise<boolean> {
    const updated = await this.db
      .updateTable('username_purchases')
      .set(change)
      .where('id', '=', id)
      .where('lease_holder', '=', holder)
      .where('state', '=', 'open')
      .executeTakeFirst();
    return updated.numUpdatedRows === 1n;
  }
}

/** No run holds the lease, or it has expired. */
function isFree(nowMs: number) {
  return sql<boolean>`coalesce(lease_until, 0) < ${nowMs}`;
}
