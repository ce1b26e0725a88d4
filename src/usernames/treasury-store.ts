import { sql } from 'kysely';
import { DatabaseStore, isAny, jsonRows } from '../database/sql.ts';

/** A proof of the operator's, sealed. */
export interface SealedProof {
  /** hash_to_curve of its secret (NUT-07), in hex. */
  y: string;
  mintUrl: string;
  amountSat: number;
  /** The whole proof. */
  proof: string;
}

/** What can be withdrawn at one mint. */
export interface MintBalance {
  mintUrl: string;
  amountSat: number;
  proofCount: number;
}

/** A token that was withdrawn. */
export interface Withdrawal {
  id: string;
  mintUrl: string;
  amountSat: number;
  /** Milliseconds since 1970. */
  createdAtMs: number;
  /** The proofs of the token, sealed. */
  proofs: string;
}

const WITHDRAWAL_COLUMNS = [
  'id',
  'mint_url as mintUrl',
  'amount_sat as amountSat',
  'created_at as createdAtMs',
  'proofs',
] as const;

const COLUMNS = { y: 'text', mint_url: 'text', amount_sat: 'bigint', proof: 'text' } as const;

/** The operator's ecash that can be withdrawn, and the tokens that were. */
export class TreasuryStore extends DatabaseStore {
  /** Adds proofs; those that are already stored stay as they are. */
  async add(proofs: readonly SealedProof[]): Promise<void> {
    if (proofs.length === 0) {
      return;
    }
    const rows = proofs.map(({ y, mintUrl, amountSat, proof }) => ({
      y,
      mint_url: mintUrl,
      amount_sat: amountSat,
      proof,
    }));
    await sql`
      insert into treasury_proofs (y, mint_url, amount_sat, proof)
      select y, mint_url, amount_sat, proof
      from ${jsonRows(this.db, COLUMNS, rows)} as added
      where true
      on conflict (y) do nothing
    `.execute(this.db);
  }

  /** Lists what all proofs of a mint are worth, largest first. */
  async listAmounts(mintUrl: string): Promise<{ y: string; amount: number }[]> {
    return await this.db
      .selectFrom('treasury_proofs')
      .select(['y', 'amount_sat as amount'])
      .where('mint_url', '=', mintUrl)
      .orderBy('amount_sat', 'desc')
      .orderBy('y')
      .execute();
  }

  /** Reads proofs, largest first. Those that were withdrawn are missing. */
  async find(ys: readonly string[]): Promise<SealedProof[]> {
    return await this.db
      .selectFrom('treasury_proofs')
      .select(['y', 'mint_url as mintUrl', 'amount_sat as amountSat', 'proof'])
      .where(isAny(this.db, 'y', 'text', ys))
      .orderBy('amount_sat', 'desc')
      .orderBy('y')
      .execute();
  }

  /**
   * Moves proofs out of the treasury into a withdrawal. In a transaction.
   *
   * @param ys of the proofs
   * @returns false if some are missing: the caller must roll the transaction back
   */
  async withdraw(withdrawal: Withdrawal, ys: readonly string[]): Promise<boolean> {
    const removed = await this.db
      .deleteFrom('treasury_proofs')
      .where(isAny(this.db, 'y', 'text', ys))
      .executeTakeFirst();
    await this.db
      .insertInto('treasury_withdrawals')
      .values({
        id: withdrawal.id,
        mint_url: withdrawal.mintUrl,
        amount_sat: withdrawal.amountSat,
        created_at: withdrawal.createdAtMs,
        proofs: withdrawal.proofs,
      })
      .execute();
    return removed.numDeletedRows === BigInt(ys.length);
  }

  /** Reads a withdrawal; null if there is none with this id. */
  async findWithdrawal(id: string): Promise<Withdrawal | null> {
    const withdrawals = this.db.selectFrom('treasury_withdrawals').select(WITHDRAWAL_COLUMNS);
    return (await withdrawals.where('id', '=', id).executeTakeFirst()) ?? null;
  }

  /** Lists withdrawals, newest first. */
  async listWithdrawals(limit: number): Promise<Withdrawal[]> {
    return await this.db
      .selectFrom('treasury_withdrawals')
      .select(WITHDRAWAL_COLUMNS)
      .orderBy('created_at', 'desc')
      .orderBy('id')
      .limit(limit)
      .execute();
  }

  /** What can be withdrawn, by mint. */
  async balances(): Promise<MintBalance[]> {
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
   * Makes a secret the one that all processes seal with.
   *
   * @param keyId of the secret
   * @returns false if another secret is still needed to open stored ecash
   */
  async claimKey(keyId: string): Promise<boolean> {
    await this.db
      .insertInto('treasury_key')
      .values({ id: 1, key_id: keyId })
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    if (await this.isClaimed(keyId)) {
      return true;
    }
    if (await this.hasSealed()) {
      return false;
    }
    await this.db.updateTable('treasury_key').set({ key_id: keyId }).execute();
    return true;
  }

  /** Whether all processes seal with this secret. */
  async isClaimed(keyId: string): Promise<boolean> {
    const row = await this.db
      .selectFrom('treasury_key')
      .select('key_id')
      .where('key_id', '=', keyId)
      .executeTakeFirst();
    return row !== undefined;
  }

  /** Whether there is ecash, or an open purchase, that the treasury secret must open. */
  async hasSealed(): Promise<boolean> {
    const { rows } = await sql`
      select 1 where exists (select 1 from treasury_proofs)
        or exists (select 1 from username_purchases where state = 'open')
    `.execute(this.db);
    return rows.length > 0;
  }
}
