import { type Kysely, sql } from 'kysely';
import { anyOf } from './any-of.ts';
import type { Schema } from './schema.ts';

/** A piece of the operator's money, ready to be kept. */
export interface SealedProof {
  /** hash_to_curve of its secret (NUT-07), in hex. */
  y: string;
  mintUrl: string;
  keysetId: string;
  amountSat: number;
  /** The whole proof, sealed. */
  proof: string;
}

/** What can be withdrawn at one mint. */
export interface MintBalance {
  mintUrl: string;
  amountSat: number;
  proofCount: number;
}

/**
 * The operator's money: every proof that may still be worth something to us. Some belong to a
 * withdrawal, which spends them or gave them away in a token; nothing else touches those.
 */
export class TreasuryStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  /**
   * Keeps proofs that can be withdrawn; ones that are kept already stay as they are.
   *
   * @param earnedBy the operation that they came from
   */
  async add(proofs: readonly SealedProof[], earnedBy: string, nowMs: number): Promise<void> {
    await this.#insert(proofs, { earnedBy, nowMs, withdrawal: null });
  }

  /** Keeps proofs that a withdrawal made for its token. */
  async addFor(withdrawal: string, proofs: readonly SealedProof[], nowMs: number): Promise<void> {
    await this.#insert(proofs, { earnedBy: withdrawal, nowMs, withdrawal });
  }

  /** What can be withdrawn at a mint, the largest first. */
  async listFree(mintUrl: string, limit: number): Promise<SealedProof[]> {
    const rows = await this.#proofs()
      .where('mint_url', '=', mintUrl)
      .where('withdrawal', 'is', null)
      .orderBy('amount_sat', 'desc')
      .orderBy('y')
      .limit(limit)
      .execute();
    return rows.map(toProof);
  }

  /** The proofs that a withdrawal has, in an order that stays. */
  async listOf(withdrawal: string): Promise<SealedProof[]> {
    const rows = await this.#proofs()
      .where('withdrawal', '=', withdrawal)
      .orderBy('amount_sat')
      .orderBy('y')
      .execute();
    return rows.map(toProof);
  }

  /**
   * Gives proofs from one holder to another; null is the treasury itself, where they can be withdrawn.
   *
   * @returns false where some of them are not there any more: the transaction must be undone then
   */
  async move(ys: readonly string[], from: string | null, to: string | null): Promise<boolean> {
    // Locked in one order everywhere, so that two withdrawals never wait for each other.
    const moved = await sql`
      with locked as (
        select y from treasury_proofs
        where y in ${anyOf(ys)} and withdrawal is not distinct from ${from}
        order by y
        for update
      )
      update treasury_proofs set withdrawal = ${to} where y in (select y from locked)
    `.execute(this.#db);
    return moved.numAffectedRows === BigInt(ys.length);
  }

  /** Forgets proofs of a withdrawal that are worth nothing any more: they were spent. */
  async forget(withdrawal: string, ys: readonly string[]): Promise<void> {
    await this.#db
      .deleteFrom('treasury_proofs')
      .where('withdrawal', '=', withdrawal)
      .where('y', 'in', anyOf(ys))
      .execute();
  }

  /** What can be withdrawn, by mint. */
  async balances(): Promise<MintBalance[]> {
    const rows = await this.#db
      .selectFrom('treasury_proofs')
      .select((select) => [
        'mint_url',
        select.fn.sum<string>('amount_sat').as('amount'),
        select.fn.countAll<string>().as('count'),
      ])
      .where('withdrawal', 'is', null)
      .groupBy('mint_url')
      .orderBy('mint_url')
      .execute();
    return rows.map((row) => ({
      mintUrl: row.mint_url,
      amountSat: Number(row.amount),
      proofCount: Number(row.count),
    }));
  }

  /**
   * Says which secret seals from now on: one for all processes, and for as long as something that it
   * sealed is needed.
   *
   * @param keyId names the secret
   * @returns false where another one is needed
   */
  async claimKey(keyId: string): Promise<boolean> {
    await this.#db
      .insertInto('treasury_key')
      .values({ key_id: keyId })
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    const claimed = await this.#db.selectFrom('treasury_key').select('key_id').executeTakeFirst();
    if (claimed?.key_id === keyId) {
      return true;
    }
    if (await this.hasSealed()) {
      return false;
    }
    await this.#db.updateTable('treasury_key').set({ key_id: keyId }).execute();
    return true;
  }

  /** Whether this is the secret that seals, and no process with another one has come since. */
  async isClaimed(keyId: string): Promise<boolean> {
    const row = await this.#db
      .selectFrom('treasury_key')
      .select('key_id')
      .where('key_id', '=', keyId)
      .executeTakeFirst();
    return row !== undefined;
  }

  /** Whether something that was sealed is still needed. */
  async hasSealed(): Promise<boolean> {
    const kept = await this.#db
      .selectFrom('treasury_proofs')
      .leftJoin('treasury_withdrawals', 'treasury_withdrawals.id', 'treasury_proofs.withdrawal')
      .select('y')
      // Nobody needs to open what was handed out in a token, or was found to be spent.
      .where((where) =>
        where.or([
          where('withdrawal', 'is', null),
          where('treasury_withdrawals.state', '=', 'open'),
        ]),
      )
      .limit(1)
      .executeTakeFirst();
    const journalled = await this.#db
      .selectFrom('username_purchases')
      .select('id')
      .where('state', '=', 'open')
      .limit(1)
      .executeTakeFirst();
    return kept !== undefined || journalled !== undefined;
  }

  async #insert(
    proofs: readonly SealedProof[],
    { earnedBy, nowMs, withdrawal }: { earnedBy: string; nowMs: number; withdrawal: string | null },
  ): Promise<void> {
    if (proofs.length === 0) {
      return;
    }
    const rows = proofs.map((proof) => ({
      y: proof.y,
      mint_url: proof.mintUrl,
      keyset_id: proof.keysetId,
      amount_sat: proof.amountSat,
      proof: proof.proof,
    }));
    await sql`
      insert into treasury_proofs (
        y, mint_url, keyset_id, amount_sat, proof, earned_by, created_at, withdrawal
      )
      select y, mint_url, keyset_id, amount_sat, proof,
             ${earnedBy}::text, ${new Date(nowMs)}::timestamptz, ${withdrawal}::text
      from json_to_recordset(${JSON.stringify(rows)}::json)
        as added (y text, mint_url text, keyset_id text, amount_sat bigint, proof text)
      on conflict (y) do nothing
    `.execute(this.#db);
  }

  #proofs() {
    return this.#db
      .selectFrom('treasury_proofs')
      .select(['y', 'mint_url', 'keyset_id', 'amount_sat', 'proof']);
  }
}

function toProof(row: {
  y: string;
  mint_url: string;
  keyset_id: string;
  amount_sat: number;
  proof: string;
}): SealedProof {
  return {
    y: row.y,
    mintUrl: row.mint_url,
    keysetId: row.keyset_id,
    amountSat: row.amount_sat,
    proof: row.proof,
  };
}
