import { hkdfSync } from 'node:crypto';
import { CompactEncrypt, compactDecrypt, decodeProtectedHeader } from 'jose';
import { sql } from 'kysely';
import { BaseStore, columnInValues, jsonRows } from '../database/sql.ts';
import { OperatorError } from '../errors.ts';
import type { Proof } from '../mints/ecash.ts';
import { computeY, mapInSlices } from './ecash/proofs.ts';

export interface SealedProof {
  /** Identifies the proof (see `computeY`). */
  y: string;
  mintUrl: string;
  amountSat: number;
  /** When the mint stops accepting the proof, in milliseconds since 1970; null if never. */
  expiresAtMs: number | null;
  /** The whole proof, encrypted. */
  sealed: string;
}

/** Ecash of a mint that expires at the same time. */
export interface ExpiringEcash {
  mintUrl: string;
  amountSat: number;
  expiresAtMs: number;
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
    const columns = {
      y: 'text',
      mintUrl: 'text',
      amountSat: 'bigint',
      expiresAtMs: 'bigint',
      sealed: 'text',
    } as const;
    await sql`
      insert into treasury_proofs (y, mint_url, amount_sat, expires_at, proof)
      select y, "mintUrl", "amountSat", "expiresAtMs", sealed
      from ${jsonRows(this.db, columns, proofs)} as added
      where true
      on conflict (y) do nothing
    `.execute(this.db);
  }

  /** Lists the amounts of all proofs of a mint, largest first. */
  async listProofAmounts(
    mintUrl: string,
  ): Promise<{ y: string; amount: number; expiresAtMs: number | null }[]> {
    return await this.db
      .selectFrom('treasury_proofs')
      .select(['y', 'amount_sat as amount', 'expires_at as expiresAtMs'])
      .where('mint_url', '=', mintUrl)
      .orderBy('amount_sat', 'desc')
      .orderBy('y')
      .execute();
  }

  /** Reads proofs, largest first. Skips proofs that were withdrawn. */
  async findProofs(ys: readonly string[]): Promise<Pick<SealedProof, 'y' | 'sealed'>[]> {
    return await this.db
      .selectFrom('treasury_proofs')
      .select(['y', 'proof as sealed'])
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

  /** Lists what expires before a time, or has expired, soonest first. */
  async listExpiring(beforeMs: number): Promise<ExpiringEcash[]> {
    const rows = await this.db
      .selectFrom('treasury_proofs')
      .select((select) => [
        'mint_url as mintUrl',
        select.fn.sum<string>('amount_sat').as('amountSat'),
        select.fn.coalesce('expires_at', sql<number>`0`).as('expiresAtMs'),
      ])
      .where('expires_at', '<', beforeMs)
      .groupBy(['mint_url', 'expires_at'])
      .orderBy('expires_at')
      .orderBy('mint_url')
      .execute();
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

  /** Returns the id of the key that all processes use; null if no process has used a treasury secret. */
  async readActiveKeyId(): Promise<string | null> {
    const row = await this.db.selectFrom('treasury_key').select('key_id').executeTakeFirst();
    return row?.key_id ?? null;
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

const ALGORITHM = 'dir';
const ENCRYPTION = 'A256GCM';
const KEY_BYTES = 32;

/** Long enough to distinguish the operator's keys. */
const KEY_ID_BYTES = 8;

/**
 * Encrypts values that must not be readable in the database, as compact JWEs (`dir`, `A256GCM`). Each value is bound
 * to a context, such as the row that it belongs to, and cannot be opened for another context. The context is in the
 * header of the JWE, which is authenticated but not secret.
 */
export class Sealer {
  /** Identifies the key. Each sealed value contains it (`kid`), so that the operator sees which secret is needed. */
  readonly keyId: string;
  readonly #key: Uint8Array;

  /** @param secret at least 32 characters */
  constructor(secret: string) {
    this.#key = deriveKey(secret, 'nutpost sealing key', KEY_BYTES);
    this.keyId = deriveKey(secret, 'nutpost sealing key id', KEY_ID_BYTES).toString('hex');
  }

  /**
   * @param context not secret, such as the kind and the key of the row
   * @param value serialised as JSON
   */
  async seal(context: string, value: unknown): Promise<string> {
    return await new CompactEncrypt(Buffer.from(JSON.stringify(value)))
      .setProtectedHeader({ alg: ALGORITHM, enc: ENCRYPTION, kid: this.keyId, context })
      .encrypt(this.#key);
  }

  /**
   * @throws OperatorError if the value was sealed with another secret
   * @throws Error if the value was sealed for another context, or was changed
   */
  async open(context: string, sealed: string): Promise<unknown> {
    const keyId = readKeyId(sealed);
    if (keyId === null) {
      throw new Error('This is not a sealed text.');
    }
    if (keyId !== this.keyId) {
      throw new OperatorError(
        `TREASURY_SECRET: key ${this.keyId} does not open this ecash; it was sealed with key ${keyId}.`,
      );
    }
    const { plaintext, protectedHeader } = await compactDecrypt(sealed, this.#key, {
      keyManagementAlgorithms: [ALGORITHM],
      contentEncryptionAlgorithms: [ENCRYPTION],
    }).catch(() => {
      throw new Error('This sealed text was changed.');
    });
    if (protectedHeader['context'] !== context) {
      throw new Error(`This was not sealed for ${context}.`);
    }
    return JSON.parse(new TextDecoder().decode(plaintext));
  }
}

/** Returns the id of the key that sealed a text; null if the text is not sealed. */
function readKeyId(sealed: string): string | null {
  try {
    const { kid } = decodeProtectedHeader(sealed);
    return typeof kid === 'string' ? kid : null;
  } catch {
    return null;
  }
}

/** Seals each proof for its own row of the treasury. */
export async function sealProofs(
  sealer: Sealer,
  mintUrl: string,
  proofs: readonly Proof[],
  expiresAtMs: number | null = null,
): Promise<SealedProof[]> {
  const ys = await mapInSlices(proofs, (proof) => ({ proof, y: computeY(proof) }));
  const sealProof = async ({ proof, y }: { proof: Proof; y: string }): Promise<SealedProof> => {
    const sealed = await sealer.seal(proofSealContext(y), proof);
    return { y, mintUrl, amountSat: proof.amount, expiresAtMs, sealed };
  };
  return await Promise.all(ys.map(sealProof));
}

export async function openProof(sealer: Sealer, { y, sealed }: Pick<SealedProof, 'y' | 'sealed'>) {
  return (await sealer.open(proofSealContext(y), sealed)) as Proof;
}

function proofSealContext(y: string): string {
  return `treasury proof ${y}`;
}

function deriveKey(secret: string, purpose: string, bytes: number): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', purpose, bytes));
}
