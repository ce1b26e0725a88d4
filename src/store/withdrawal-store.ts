import { type Kysely, type Selectable, sql } from 'kysely';
import type { OutputPlan } from '../domain/ecash.ts';
import type { WithdrawalDetail } from '../domain/withdrawal.ts';
import { DrivenOperations } from './driven-operations.ts';
import type { Schema } from './schema.ts';

/** A withdrawal to be written down, before its mint hears of it. */
export interface NewWithdrawal {
  id: string;
  mintUrl: string;
  /** What is to reach the operator. */
  amountSat: number;
  createdAtMs: number;
  detail: WithdrawalDetail;
}

/** A withdrawal as it is kept. Times in milliseconds since 1970. */
export interface Withdrawal extends NewWithdrawal {
  state: 'open' | 'done' | 'undone';
  settledAtMs: number | null;
  /** Why it waits, or why it was undone, in a few words. */
  reason: string | null;
  /** What the mint and the way there took; null until it is done. */
  feeSat: number | null;
  /** When it was seen that somebody redeemed the whole token. */
  redeemedAtMs: number | null;
  /** How often its end was looked for in vain. */
  tries: number;
  /** When its end is looked for next; null once it has ended. */
  nextTryAtMs: number | null;
  /** When it first seemed to have come to nothing. */
  doubtedAtMs: number | null;
}

/** The journal of what the operator takes out. */
export class WithdrawalStore {
  /** Who works on which of them. */
  readonly driven: DrivenOperations;
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
    this.driven = new DrivenOperations(db, 'treasury_withdrawals');
  }

  /** Writes a withdrawal down; whoever does has it to drive. */
  async open(withdrawal: NewWithdrawal, driver: string): Promise<void> {
    await this.#db
      .insertInto('treasury_withdrawals')
      .values({
        id: withdrawal.id,
        kind: withdrawal.detail.kind,
        mint_url: withdrawal.mintUrl,
        amount_sat: withdrawal.amountSat,
        state: 'open',
        created_at: new Date(withdrawal.createdAtMs),
        detail: JSON.stringify(withdrawal.detail),
        next_try_at: new Date(withdrawal.createdAtMs),
      })
      .execute();
    await this.driven.drive(withdrawal.id, driver);
  }

  /** Any withdrawal; null where there is none of this id. */
  async find(id: string): Promise<Withdrawal | null> {
    const row = await this.#db
      .selectFrom('treasury_withdrawals')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirst();
    return row === undefined ? null : toWithdrawal(row);
  }

  /**
   * Withdrawals, the newest first.
   *
   * @param which `open`: those under way; `unredeemed`: tokens that were handed out and not redeemed
   * @param limit Infinity: every one
   */
  async list(which: 'all' | 'open' | 'unredeemed', limit: number): Promise<Withdrawal[]> {
    const rows = await this.#db
      .selectFrom('treasury_withdrawals')
      .selectAll()
      .$if(which === 'open', (query) => query.where('state', '=', 'open'))
      .$if(which === 'unredeemed', (query) =>
        query
          .where('kind', '=', 'token')
          .where('state', '=', 'done')
          .where('redeemed_at', 'is', null),
      )
      .orderBy('created_at', 'desc')
      .orderBy('id')
      .$if(Number.isFinite(limit), (query) => query.limit(limit))
      .execute();
    return rows.map(toWithdrawal);
  }

  /**
   * Adds a plan of outputs, before it is sent to the mint. Its position is part of what its outputs are
   * derived from.
   *
   * @returns false where another run has the withdrawal, or has added one itself
   */
  async addPlan(
    id: string,
    driver: string,
    { plan, position }: { plan: OutputPlan; position: number },
  ): Promise<boolean> {
    const result = await sql`
      update treasury_withdrawals
      set detail = jsonb_set(detail, '{plans}',
        (detail -> 'plans') || ${JSON.stringify([plan])}::jsonb)
      where id = ${id} and driver = ${driver} and state = 'open'
        and jsonb_array_length(detail -> 'plans') = ${position}
    `.execute(this.#db);
    return result.numAffectedRows === 1n;
  }

  /**
   * The money is where it was to go.
   *
   * @returns false where the withdrawal had ended before, or another run has it
   */
  async finish(id: string, driver: string, feeSat: number, nowMs: number): Promise<boolean> {
    return this.#end(id, driver, {
      state: 'done',
      settled_at: new Date(nowMs),
      fee_sat: feeSat,
      reason: null,
    });
  }

  /**
   * The money stays where it was.
   *
   * @param reason a few words
   * @returns false where the withdrawal had ended before, or another run has it
   */
  async undo(id: string, driver: string, reason: string, nowMs: number): Promise<boolean> {
    return this.#end(id, driver, { state: 'undone', settled_at: new Date(nowMs), reason });
  }

  /** Whether a token is being taken back. */
  async isBeingReclaimed(id: string): Promise<boolean> {
    const { rows } = await sql`
      select id from treasury_withdrawals
      where kind = 'reclaim' and state = 'open' and detail ->> 'of' = ${id}
      limit 1
    `.execute(this.#db);
    return rows.length > 0;
  }

  /**
   * Somebody redeemed the whole token; its proofs are to be forgotten with it.
   *
   * @returns false where it was known, or the token was taken back
   */
  async setRedeemed(id: string, nowMs: number): Promise<boolean> {
    return this.#handedOut(id, { redeemed_at: new Date(nowMs) });
  }

  /** The token was taken back. */
  async setReclaimed(id: string, nowMs: number): Promise<void> {
    await this.#handedOut(id, {
      state: 'undone',
      settled_at: new Date(nowMs),
      fee_sat: null,
      reason: 'taken back',
    });
  }

  async #handedOut(
    id: string,
    change: Partial<{
      state: 'undone';
      settled_at: Date;
      redeemed_at: Date;
      fee_sat: null;
      reason: string;
    }>,
  ): Promise<boolean> {
    const changed = await this.#db
      .updateTable('treasury_withdrawals')
      .set(change)
      .where('id', '=', id)
      .where('kind', '=', 'token')
      .where('state', '=', 'done')
      .where('redeemed_at', 'is', null)
      .executeTakeFirst();
    return changed.numUpdatedRows === 1n;
  }

  async #end(
    id: string,
    driver: string,
    end: {
      state: 'done' | 'undone';
      settled_at: Date;
      fee_sat?: number;
      reason: string | null;
    },
  ): Promise<boolean> {
    const ended = await this.#db
      .updateTable('treasury_withdrawals')
      .set({ ...end, driver: null, driver_until: null, next_try_at: null })
      .where('id', '=', id)
      .where('driver', '=', driver)
      .where('state', '=', 'open')
      .executeTakeFirst();
    return ended.numUpdatedRows === 1n;
  }
}

function toWithdrawal(row: Selectable<Schema['treasury_withdrawals']>): Withdrawal {
  return {
    id: row.id,
    mintUrl: row.mint_url,
    amountSat: row.amount_sat,
    createdAtMs: row.created_at.getTime(),
    detail: row.detail,
    state: row.state,
    settledAtMs: row.settled_at?.getTime() ?? null,
    reason: row.reason,
    feeSat: row.fee_sat,
    redeemedAtMs: row.redeemed_at?.getTime() ?? null,
    tries: row.tries,
    nextTryAtMs: row.next_try_at?.getTime() ?? null,
    doubtedAtMs: row.doubted_at?.getTime() ?? null,
  };
}
