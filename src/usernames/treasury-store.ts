import { sql } from 'kysely';
import { BaseStore, columnInValues, jsonRows } from '../database/sql.ts';

export interface SealedProof {
  /** Identifies the proof (see `computeY`). */
  y: string;
  mintUrl: string;
  amountSat: number;
  /** The whole proof, encrypted. */
  sealed: string;
}

export interface MintBalance {
  mintUrl: string;
  amountSat: number;
  proofCount: number;
}

export interface Withdrawal {
  id: string;
  mintUrl: string;
  amountSat: number;
  createdAtMs: number;
  sealedProofs: string;
}

/** Stores the operator's ecash and the tokens that the operator has withdrawn. */
export class TreasuryStore extends BaseStore {
  /** Adds proofs, and skips proofs that are already stored. */
  async addProofs(proofs: readonly SealedProof[]): Promise<void> {
    const columns = { y: 'text', mintUrl: 'text', amountSat: 'bigint', sealed: 'text' } as const;
    await sql`
      insert into treasury_proofs (y, mint_url, amount_sat, proof)
      select y, "mintUrl", "amountSat", sealed from ${jsonRows(this.db, columns, proofs)} as added
      where true
      on conflict (y) do nothing
    `.execute(this.db);
  }

  /** Lists the amounts of all proofs of a mint, largest first. */
  async listProofAmounts(mintUrl: string): Promise<{ y: string; amount: number }[]> {
    return await this.db
      .selectFrom('treasury_proofs')
      .select(['y', 'amount_sat as amount'])
      .where('mint_url', '=', mintUrl)
      .orderBy('amount_sat', 'desc')
      .orderBy('y')
      .execute();
  }

  /** Reads proofs, largest first. Skips proofs that were withdrawn. */
  async findProofs(ys: readonly string[]): Promise<SealedProof[]> {
    return await this.db
      .selectFrom('treasury_proofs')
      .select(['y', 'mint_url as mintUrl', 'amount_sat as amountSat', 'proof as sealed'])
      .where(columnInValues(this.db, 'y', 'text', ys))
      .orderBy('amount_sat', 'desc')
      .orderBy('y')
      .execute();
  }

  /**
   * Moves proofs from the treasury into a withdrawal. Must be called in a transaction.
   *
   * @returns false if some proofs are missing: the caller must roll the transaction back
   */
  async withdraw(withdrawal: Withdrawal, ys: readonly string[]): Promise<boolean> {
    const removed = await this.db
      .deleteFrom('treasury_proofs')
      .where(columnInValues(this.db, 'y', 'text', ys))
      .executeTakeFirst();
    await this.db
      .insertInto('treasury_withdrawals')
      .values({
        id: withdrawal.id,
        mint_url: withdrawal.mintUrl,
        amount_sat: withdrawal.amountSat,
        created_at: withdrawal.createdAtMs,
        proofs: withdrawal.sealedProofs,
      })
      .execute();
    return removed.numDeletedRows === BigInt(ys.length);
  }

  async findWithdrawal(id: string): Promise<Withdrawal | undefined> {
    return await this.#selectWithdrawals().where('id', '=', id).executeTakeFirst();
  }

  /** Lists withdrawals, newest first. */
  async listWithdrawals(limit: number): Promise<Withdrawal[]> {
    return await this.#selectWithdrawals()
      .orderBy('created_at', 'desc')
      .orderBy('id')
      .limit(limit)
      .execute();
  }

  async listBalances(): Promise<MintBalance[]> {
    const rows = await this.db
      .selectFrom('treasury_proofs')
      .select((select) => [
        'mint_url as mintUrl',
        select.fn.sum<string>('amount_sat').as('amountSat'),
        select.fn.countAll<number>().as('proofCount'),
      ])
      .groupBy('mint_url')
      .orderBy('mint_url')
      .execute();
    // PostgreSQL returns sums as text.
    return rows.map((row) => ({ ...row, amountSat: Number(row.amountSat) }));
  }

  /**
   * Makes a treasury secret the one that all processes use.
   *
   * @param keyId identifies the secret
   * @returns false if stored ecash can only be opened with another secret
   */
  async activateKey(keyId: string): Promise<boolean> {
    await this.db
      .insertInto('treasury_key')
      .values({ id: 1, key_id: keyId })
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    const isActive = await this.isActiveKey(keyId);
    if (isActive || (await this.hasSealedData())) {
      return isActive;
    }
    await this.db.updateTable('treasury_key').set({ key_id: keyId }).execute();
    return true;
  }

  async isActiveKey(keyId: string): Promise<boolean> {
    const row = await this.db
      .selectFrom('treasury_key')
      .select('key_id')
      .where('key_id', '=', keyId)
      .executeTakeFirst();
    return row !== undefined;
  }

  /** Whether ecash or an open purchase is stored. Both are sealed with the treasury secret. */
  async hasSealedData(): Promise<boolean> {
    const { rows } = await sql`
      select 1 where exists (select 1 from treasury_proofs)
        or exists (select 1 from username_purchases where state = 'open')
    `.execute(this.db);
    return rows.length > 0;
  }

  #selectWithdrawals() {
    return this.db
      .selectFrom('treasury_withdrawals')
      .select([
        'id',
        'mint_url as mintUrl',
        'amount_sat as amountSat',
        'created_at as createdAtMs',
        'proofs as sealedProofs',
      ]);
  }
}
