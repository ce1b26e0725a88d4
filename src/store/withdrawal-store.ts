import type { Kysely, Selectable } from 'kysely';
import type { OutputPlan } from '../domain/ecash.ts';
import { JobLease } from './job-lease.ts';
import type { Schema } from './schema.ts';

/** A withdrawal before it is carried out. */
export interface NewWithdrawal {
  id: string;
  mintUrl: string;
  /** Face value of the token. */
  amountSat: number;
  createdAtMs: number;
  /** The proofs that it spends, sealed. */
  inputs: string;
  /** The outputs of the swap; empty if the proofs already make up the amount. */
  plans: OutputPlan[];
}

/** A withdrawal as it is stored. Times in milliseconds since 1970. */
export interface Withdrawal {
  id: string;
  mintUrl: string;
  amountSat: number;
  createdAtMs: number;
  state: 'open' | 'done' | 'undone';
  settledAtMs: number | null;
  /** Why it was undone or is retried, in a few words. */
  reason: string | null;
  /** What the mint kept; null until it is done. */
  feeSat: number | null;
  /** Sealed: its inputs while it is open, the proofs of its token once done; null if undone. */
  proofs: string | null;
  /** Every plan of outputs that may have been sent to the mint, newest last. */
  plans: OutputPlan[];
  /** How many attempts to settle it have failed. */
  tries: number;
  /** When the next attempt is due; null once it is settled. */
  nextTryAtMs: number | null;
  /** When the mint first refused a repeated request; null if it did not. */
  refusedAtMs: number | null;
}

/** An open withdrawal, whose inputs are still needed. */
export type OpenWithdrawal = Withdrawal & { inputs: string };

/** The journal of withdrawals from the treasury. */
export class WithdrawalStore {
  readonly lease: JobLease;
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
    this.lease = new JobLease(db, 'treasury_withdrawals');
  }

  /** Writes a withdrawal, whose lease goes to `holder`. */
  async open(withdrawal: NewWithdrawal, holder: string): Promise<void> {
    await this.#db
      .insertInto('treasury_withdrawals')
      .values({
        id: withdrawal.id,
        mint_url: withdrawal.mintUrl,
        amount_sat: withdrawal.amountSat,
        state: 'open',
        created_at: new Date(withdrawal.createdAtMs),
        proofs: withdrawal.inputs,
        outputs: JSON.stringify(withdrawal.plans),
        next_try_at: new Date(withdrawal.createdAtMs),
      })
      .execute();
    await this.lease.take(withdrawal.id, holder, withdrawal.createdAtMs);
  }

  /** Reads a withdrawal in any state; null if there is none with this id. */
  async find(id: string): Promise<Withdrawal | null> {
    const row = await this.#db
      .selectFrom('treasury_withdrawals')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirst();
    return row === undefined ? null : toWithdrawal(row);
  }

  /** Reads an open withdrawal; null if there is none with this id. */
  async findOpen(id: string): Promise<OpenWithdrawal | null> {
    const withdrawal = await this.find(id);
    return withdrawal?.state !== 'open' || withdrawal.proofs === null
      ? null
      : { ...withdrawal, inputs: withdrawal.proofs };
  }

  /** Lists withdrawals, newest first. */
  async list(which: 'all' | 'open', limit: number): Promise<Withdrawal[]> {
    const rows = await this.#db
      .selectFrom('treasury_withdrawals')
      .selectAll()
      .$if(which === 'open', (query) => query.where('state', '=', 'open'))
      .orderBy('created_at', 'desc')
      .orderBy('id')
      .limit(limit)
      .execute();
    return rows.map(toWithdrawal);
  }

  /**
   * Stores all plans of outputs, before the newest is sent to the mint.
   *
   * @returns false if another run has taken over
   */
  async setPlans(id: string, holder: string, plans: readonly OutputPlan[]): Promise<boolean> {
    return this.#update(id, holder, { outputs: JSON.stringify(plans) });
  }

  /**
   * Completes a withdrawal.
   *
   * @param token the proofs of its token, sealed
   * @returns false if another run has taken over
   */
  async finish(
    id: string,
    holder: string,
    { token, feeSat, nowMs }: { token: string; feeSat: number; nowMs: number },
  ): Promise<boolean> {
    const end = { state: 'done', proofs: token, fee_sat: feeSat, reason: null } as const;
    return this.#update(id, holder, { ...end, ...settled(nowMs) });
  }

  /**
   * Gives a withdrawal up.
   *
   * @param reason in a few words
   * @returns false if another run has taken over
   */
  async undo(id: string, holder: string, reason: string, nowMs: number): Promise<boolean> {
    const end = { state: 'undone', proofs: null, reason } as const;
    return this.#update(id, holder, { ...end, ...settled(nowMs) });
  }

  async #update(
    id: string,
    holder: string,
    change: Partial<{
      state: 'done' | 'undone';
      proofs: string | null;
      outputs: string;
      fee_sat: number;
      reason: string | null;
      settled_at: Date;
      lease_holder: null;
      lease_until: null;
      next_try_at: null;
    }>,
  ): Promise<boolean> {
    const updated = await this.#db
      .updateTable('treasury_withdrawals')
      .set(change)
      .where('id', '=', id)
      .where('lease_holder', '=', holder)
      .where('state', '=', 'open')
      .executeTakeFirst();
    return updated.numUpdatedRows === 1n;
  }
}

function settled(nowMs: number) {
  return {
    settled_at: new Date(nowMs),
    lease_holder: null,
    lease_until: null,
    next_try_at: null,
  };
}

function toWithdrawal(row: Selectable<Schema['treasury_withdrawals']>): Withdrawal {
  return {
    id: row.id,
    mintUrl: row.mint_url,
    amountSat: row.amount_sat,
    createdAtMs: row.created_at.getTime(),
    state: row.state,
    settledAtMs: row.settled_at?.getTime() ?? null,
    reason: row.reason,
    feeSat: row.fee_sat,
    proofs: row.proofs,
    plans: row.outputs,
    tries: row.tries,
    nextTryAtMs: row.next_try_at?.getTime() ?? null,
    refusedAtMs: row.refused_at?.getTime() ?? null,
  };
}
