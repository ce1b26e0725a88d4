import type { Kysely } from 'kysely';
import type { Schema } from '../database/schema.ts';
import type { OutputPlan } from '../domain/ecash.ts';
import { firstLease, type OpenSwap, SwapJournal } from './swap-journal.ts';

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
export interface Withdrawal extends Omit<OpenSwap, 'inputs'> {
  /** Face value of the token. */
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
  /** When the next attempt is due; null once it is settled. */
  nextTryAtMs: number | null;
}

/** An open withdrawal, whose inputs are still needed. */
export type OpenWithdrawal = Withdrawal & OpenSwap;

const COLUMNS = [
  'id',
  'mint_url as mintUrl',
  'amount_sat as amountSat',
  'created_at as createdAtMs',
  'state',
  'settled_at as settledAtMs',
  'reason',
  'fee_sat as feeSat',
  'proofs',
  'outputs',
  'tries',
  'next_try_at as nextTryAtMs',
  'refused_at as refusedAtMs',
] as const;

/** The journal of withdrawals from the treasury. */
export class WithdrawalStore extends SwapJournal {
  constructor(db: Kysely<Schema>) {
    super(db, 'treasury_withdrawals');
  }

  /** Writes a withdrawal, whose lease goes to `holder`. */
  async open(withdrawal: NewWithdrawal, holder: string): Promise<void> {
    await this.db
      .insertInto('treasury_withdrawals')
      .values({
        id: withdrawal.id,
        mint_url: withdrawal.mintUrl,
        amount_sat: withdrawal.amountSat,
        state: 'open',
        proofs: withdrawal.inputs,
        outputs: JSON.stringify(withdrawal.plans),
        ...firstLease(holder, withdrawal.createdAtMs),
      })
      .execute();
  }

  /** Reads a withdrawal in any state; null if there is none with this id. */
  async find(id: string): Promise<Withdrawal | null> {
    const row = await this.db
      .selectFrom('treasury_withdrawals')
      .select(COLUMNS)
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
    const rows = await this.db
      .selectFrom('treasury_withdrawals')
      .select(COLUMNS)
      .$if(which === 'open', (query) => query.where('state', '=', 'open'))
      .orderBy('created_at', 'desc')
      .orderBy('id')
      .limit(limit)
      .execute();
    return rows.map(toWithdrawal);
  }

  /**
   * Completes a withdrawal.
   *
   * @param token the proofs of its token, sealed
   * @returns false if another run has taken over
   */
  finish(
    id: string,
    holder: string,
    { token, feeSat, nowMs }: { token: string; feeSat: number; nowMs: number },
  ): Promise<boolean> {
    const end = { state: 'done', reason: null, nowMs } as const;
    return this.settle(id, holder, end, { proofs: token, fee_sat: feeSat });
  }

  /**
   * Gives a withdrawal up.
   *
   * @param reason in a few words
   * @returns false if another run has taken over
   */
  undo(id: string, holder: string, reason: string, nowMs: number): Promise<boolean> {
    return this.settle(id, holder, { state: 'undone', reason, nowMs }, { proofs: null });
  }
}

function toWithdrawal({ outputs, ...row }: Omit<Withdrawal, 'plans'> & { outputs: string }) {
  return { ...row, plans: JSON.parse(outputs) as OutputPlan[] };
}
