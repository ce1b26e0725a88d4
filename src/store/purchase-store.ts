import { type Kysely, sql } from 'kysely';
import type { OutputPlan } from '../domain/ecash.ts';
import { anyOf } from './any-of.ts';
import { DrivenOperations } from './driven-operations.ts';
import type { Schema } from './schema.ts';

/** A purchase to be written down, before its token is redeemed. */
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
  /** The run that makes it. */
  driver: string;
}

/** A purchase that has not ended, as a run needs it to end it. */
export interface OpenPurchase {
  id: string;
  pubkey: string;
  name: string;
  mintUrl: string;
  /** Sealed. */
  token: string;
  /** Every plan of outputs that may have been sent to the mint, the newest last. */
  plans: OutputPlan[];
  /** How often its end was looked for in vain. */
  tries: number;
  /** When it first seemed to have come to nothing. */
  doubtedAtMs: number | null;
}

/** A purchase that some proofs were given for. */
export interface PurchaseByProofs {
  id: string;
  pubkey: string;
  name: string;
  state: 'open' | 'done' | 'undone';
}

/** A purchase whose end is not known yet. Times in milliseconds since 1970. */
export interface WaitingPurchase {
  id: string;
  name: string;
  mintUrl: string;
  paidSat: number;
  createdAtMs: number;
  tries: number;
  nextTryAtMs: number | null;
  doubtedAtMs: number | null;
}

/** What names earned. */
export interface Earnings {
  namesSold: number;
  /** Face value of the tokens that paid for them. */
  paidSat: number;
}

/** The journal of names that are paid for. */
export class PurchaseStore {
  /** Who works on which of them. */
  readonly driven: DrivenOperations;
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
    this.driven = new DrivenOperations(db, 'username_purchases');
  }

  /** Writes a purchase down; whoever does has it to drive. */
  async open(purchase: NewPurchase): Promise<void> {
    await this.#db
      .insertInto('username_purchases')
      .values({
        id: purchase.id,
        pubkey: purchase.pubkey,
        name: purchase.name,
        price_sat: purchase.priceSat,
        paid_sat: purchase.paidSat,
        mint_url: purchase.mintUrl,
        state: 'open',
        created_at: new Date(purchase.createdAtMs),
        token: purchase.token,
        outputs: JSON.stringify([purchase.plan]),
        next_try_at: new Date(purchase.createdAtMs),
      })
      .execute();
    await this.driven.drive(purchase.id, purchase.driver);
  }

  /**
   * Says that proofs are given for a purchase.
   *
   * @param ys of its proofs (NUT-07)
   * @returns false where some were given for another one: the transaction must be undone then
   */
  async claimProofs(id: string, ys: readonly string[]): Promise<boolean> {
    // In one order everywhere, so that two purchases with the same proofs never wait for each other.
    const ordered = JSON.stringify([...ys].sort());
    const { rows } = await sql`
      insert into username_purchase_proofs (y, purchase)
      select y, ${id} from json_array_elements_text(${ordered}::json) as y
      order by y
      on conflict (y) do nothing
      returning y
    `.execute(this.#db);
    return rows.length === ys.length;
  }

  /** The purchases that any of these proofs were given for. */
  async findByProofs(ys: readonly string[]): Promise<PurchaseByProofs[]> {
    return await this.#db
      .selectFrom('username_purchases')
      .select(['id', 'pubkey', 'name', 'state'])
      .where('id', 'in', (nested) =>
        nested
          .selectFrom('username_purchase_proofs')
          .select('purchase')
          .where('y', 'in', anyOf(ys)),
      )
      .execute();
  }

  /** A purchase that has not ended. */
  async findOpen(id: string): Promise<OpenPurchase | null> {
    const row = await this.#db
      .selectFrom('username_purchases')
      .selectAll()
      .where('id', '=', id)
      .where('state', '=', 'open')
      .executeTakeFirst();
    return row === undefined || row.token === null
      ? null
      : {
          id: row.id,
          pubkey: row.pubkey,
          name: row.name,
          mintUrl: row.mint_url,
          token: row.token,
          plans: row.outputs,
          tries: row.tries,
          doubtedAtMs: row.doubted_at?.getTime() ?? null,
        };
  }

  /**
   * Adds a plan of outputs, before it is sent to the mint: its place is part of what they follow from.
   *
   * @param position how many there were before
   * @returns false where another run has the purchase, or has added one itself
   */
  async addPlan(
    id: string,
    driver: string,
    { plan, position }: { plan: OutputPlan; position: number },
  ): Promise<boolean> {
    const result = await sql`
      update username_purchases set outputs = outputs || ${JSON.stringify([plan])}::jsonb
      where id = ${id} and driver = ${driver} and state = 'open'
        and jsonb_array_length(outputs) = ${position}
    `.execute(this.#db);
    return result.numAffectedRows === 1n;
  }

  /**
   * The token was redeemed. Its proofs stay known, so that they buy nothing else.
   *
   * @returns false where the purchase had ended before
   */
  async finish(id: string, driver: string, nowMs: number): Promise<boolean> {
    return await this.#end(id, driver, {
      state: 'done',
      settled_at: new Date(nowMs),
      reason: null,
    });
  }

  /**
   * The token was not redeemed, and never will be here. Its proofs are free to be given again.
   *
   * @param reason a few words
   * @returns false where the purchase had ended before
   */
  async undo(id: string, driver: string, reason: string, nowMs: number): Promise<boolean> {
    const settledAt = new Date(nowMs);
    const isEnded = await this.#end(id, driver, { state: 'undone', settled_at: settledAt, reason });
    if (isEnded) {
      await this.#db.deleteFrom('username_purchase_proofs').where('purchase', '=', id).execute();
    }
    return isEnded;
  }

  /**
   * Forgets purchases that came to nothing, in small lots.
   *
   * @returns whether there are more
   */
  async pruneUndone(beforeMs: number, limit: number): Promise<boolean> {
    const pruned = await this.#db
      .deleteFrom('username_purchases')
      .where('id', 'in', (old) =>
        old
          .selectFrom('username_purchases')
          .select('id')
          .where('state', '=', 'undone')
          .where('settled_at', '<', new Date(beforeMs))
          .limit(limit),
      )
      .executeTakeFirst();
    return Number(pruned.numDeletedRows) === limit;
  }

  /** Names that were paid for and are not settled yet, the oldest first. */
  async listWaiting(limit: number): Promise<WaitingPurchase[]> {
    const rows = await this.#db
      .selectFrom('username_purchases')
      .select([
        'id',
        'name',
        'mint_url',
        'paid_sat',
        'created_at',
        'tries',
        'next_try_at',
        'doubted_at',
      ])
      .where('state', '=', 'open')
      .orderBy('created_at')
      .limit(limit)
      .execute();
    return rows.map((row) => ({
      id: row.id,
      name: row.name,
      mintUrl: row.mint_url,
      paidSat: row.paid_sat,
      createdAtMs: row.created_at.getTime(),
      tries: row.tries,
      nextTryAtMs: row.next_try_at?.getTime() ?? null,
      doubtedAtMs: row.doubted_at?.getTime() ?? null,
    }));
  }

  /** What names earned so far. */
  async earnings(): Promise<Earnings> {
    const row = await this.#db
      .selectFrom('username_purchases')
      .select((select) => [
        select.fn.sum<string | null>('paid_sat').as('paid'),
        select.fn.countAll<string>().as('count'),
      ])
      .where('state', '=', 'done')
      .executeTakeFirstOrThrow();
    return { namesSold: Number(row.count), paidSat: Number(row.paid ?? 0) };
  }

  /** How many purchases of a key stand how. */
  async count(pubkey: string): Promise<Record<'open' | 'done' | 'undone', number>> {
    const rows = await this.#db
      .selectFrom('username_purchases')
      .select((select) => ['state', select.fn.countAll<number>().as('count')])
      .where('pubkey', '=', pubkey)
      .groupBy('state')
      .execute();
    const counts = { open: 0, done: 0, undone: 0 };
    for (const { state, count } of rows) {
      counts[state] = Number(count);
    }
    return counts;
  }

  async #end(
    id: string,
    driver: string,
    end: { state: 'done' | 'undone'; settled_at: Date; reason: string | null },
  ): Promise<boolean> {
    const ended = await this.#db
      .updateTable('username_purchases')
      .set({ ...end, token: null, driver: null, driver_until: null, next_try_at: null })
      .where('id', '=', id)
      .where('driver', '=', driver)
      .where('state', '=', 'open')
      .executeTakeFirst();
    return ended.numUpdatedRows === 1n;
  }
}
