import { type Kysely, sql } from 'kysely';
import { databaseNow, isAnyText, jsonRows } from '../database/dialect.ts';
import type { Schema } from '../database/schema.ts';
import type { OutputPlan } from '../domain/ecash.ts';
import { HISTORY_MS } from '../domain/history.ts';
import { firstLease, type OpenSwap, SwapJournal } from './swap-journal.ts';

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
export interface OpenPurchase extends OpenSwap {
  pubkey: string;
  name: string;
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

/** The journal of names that are paid for. */
export class PurchaseStore extends SwapJournal {
  constructor(db: Kysely<Schema>) {
    super(db, 'username_purchases');
  }

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
        ...firstLease(purchase.leaseHolder, purchase.createdAtMs),
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
          .where(isAnyText(this.db, 'y', ys)),
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
        'token as inputs',
        'outputs',
        'tries',
        'refused_at as refusedAtMs',
      ])
      .where('id', '=', id)
      .where('state', '=', 'open')
      .where('token', 'is not', null)
      .$narrowType<{ inputs: string }>()
      .executeTakeFirst();
    return row === undefined ? null : { ...row, plans: JSON.parse(row.outputs) };
  }

  /**
   * Completes a purchase. Its proofs stay on record, so that they cannot pay for another one.
   *
   * @returns false if another run has taken over
   */
  finish(id: string, holder: string, nowMs: number): Promise<boolean> {
    return this.settle(id, holder, { state: 'done', reason: null, nowMs }, { token: null });
  }

  /**
   * Gives a purchase up: its token was not redeemed and can pay for another purchase.
   *
   * @param reason in a few words
   * @returns false if another run has taken over
   */
  async undo(id: string, holder: string, reason: string, nowMs: number): Promise<boolean> {
    const end = { state: 'undone', reason, nowMs } as const;
    const isUndone = await this.settle(id, holder, end, { token: null });
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
    return Number(pruned.numDeletedRows) === limit;
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
}
