import { randomUUID } from 'node:crypto';
import type { Clock } from '../clock.ts';
import { type Db, tryTransaction } from '../database/transaction.ts';
import { OperatorError } from '../errors.ts';
import type { Proof } from '../mints/ecash.ts';
import { encodeToken } from './ecash/cashu-token.ts';
import { sumAmounts } from './ecash/proofs.ts';
import { listOpenPurchases, readTotalSales } from './purchase-store.ts';
import { openProof, type Sealer } from './sealer.ts';
import {
  findTreasuryProofs,
  findWithdrawal,
  hasSealedData,
  listBalances,
  listExpiringEcash,
  listTreasuryProofAmounts,
  listWithdrawals,
  type MintBalance,
  moveProofsToWithdrawal,
  readActiveTreasuryKeyId,
  type Withdrawal,
} from './treasury-store.ts';

/** Proofs in one withdrawal. Wallets and mints reject more than 1000. */
const MAX_WITHDRAWAL_PROOFS = 500;

const MAX_LISTED = 100;

/** The operator is warned of ecash that expires within this time: long enough to withdraw and redeem it. */
export const EXPIRY_WARNING_MS = 30 * 24 * 60 * 60_000;

export type TreasuryOverview = Awaited<ReturnType<Treasury['readOverview']>>;

export interface WithdrawalOrder {
  /** Normalised; null for the only mint with ecash. */
  mintUrl: string | null;
  /** Null for everything at the mint, or for the largest proofs if not all fit in one token. */
  amountSat: number | null;
}

/** If the outcome is not `token`, nothing was withdrawn. */
export type WithdrawalResult =
  /** `leftSat` is the remaining balance at the mint. */
  | { outcome: 'token'; id: string; token: string; amountSat: number; leftSat: number }
  | { outcome: 'empty' }
  | { outcome: 'choose_mint'; balances: MintBalance[] }
  /** No proofs add up to the requested amount. `availableSat` is the nearest lower amount. */
  | { outcome: 'not_exact'; requestedSat: number; availableSat: number }
  /** The amount needs more proofs than fit in one token. The largest `maxProofs` add up to `availableSat`. */
  | {
      outcome: 'too_many_proofs';
      requestedSat: number;
      proofCount: number;
      maxProofs: number;
      availableSat: number;
    }
  /** A concurrent withdrawal took the ecash. */
  | { outcome: 'conflict' };

interface TreasuryDeps {
  db: Db;
  /** Null without a treasury secret. */
  sealer: Sealer | null;
  clock: Clock;
}

/** The operator's ecash, which can be withdrawn as `cashuB` tokens. */
export class Treasury {
  readonly #deps: TreasuryDeps;

  constructor(deps: TreasuryDeps) {
    this.#deps = deps;
  }

  /** Whether there is neither a treasury secret nor anything that needs it. */
  async isUnused(): Promise<boolean> {
    const { sealer, db } = this.#deps;
    return sealer === null && !(await hasSealedData(db));
  }

  async readOverview() {
    const { sealer, db, clock } = this.#deps;
    const nowMs = clock();
    return {
      nowMs,
      /** Why the balances cannot be withdrawn; null if they can. */
      secretProblem: await findTreasuryProblem(sealer, db),
      balances: await listBalances(db),
      /** Within {@link EXPIRY_WARNING_MS}, or already. */
      expiring: await listExpiringEcash(db, nowMs + EXPIRY_WARNING_MS),
      sales: await readTotalSales(db),
      openPurchases: await listOpenPurchases(db, MAX_LISTED),
    };
  }

  listWithdrawals(): Promise<Withdrawal[]> {
    return listWithdrawals(this.#deps.db, MAX_LISTED);
  }

  /**
   * Returns the token of an earlier withdrawal, which may have been redeemed; null if the id is unknown.
   *
   * @throws OperatorError if the treasury secret is missing, or is not the one that sealed the token
   */
  async readWithdrawalToken(id: string): Promise<{ token: string; amountSat: number } | null> {
    const withdrawal = await findWithdrawal(this.#deps.db, id);
    if (withdrawal === undefined) {
      return null;
    }
    const { sealedProofs, mintUrl, amountSat } = withdrawal;
    const proofs = await this.#requireSealer().open(withdrawalSealContext(id), sealedProofs);
    return { token: encodeToken(mintUrl, proofs as Proof[]), amountSat };
  }

  /**
   * Makes a token of stored proofs, without a request to the mint. One transaction removes the proofs and stores the
   * token, so that a crash loses no ecash. Keeps expired proofs until no others are left, because a mint would reject
   * the whole token.
   *
   * @throws OperatorError if the treasury secret is missing, or is not the one that sealed the ecash
   */
  async withdraw(order: WithdrawalOrder): Promise<WithdrawalResult> {
    const { db, clock } = this.#deps;
    const sealer = this.#requireSealer();
    const balances = await listBalances(db);
    const [balance, ...otherBalances] = balances.filter(
      ({ mintUrl }) => order.mintUrl === null || order.mintUrl === mintUrl,
    );
    if (balance === undefined) {
      return { outcome: 'empty' };
    }
    if (otherBalances.length > 0) {
      return { outcome: 'choose_mint', balances };
    }
    const { mintUrl } = balance;
    const proofAmounts = await listTreasuryProofAmounts(db, mintUrl);
    const nowMs = clock();
    const valid = proofAmounts.filter(({ expiresAtMs }) => (expiresAtMs ?? Infinity) > nowMs);
    const availableProofs = valid.length > 0 ? valid : proofAmounts;
    const selectedProofs = selectProofs(availableProofs, order.amountSat);
    const withdrawnProofs = selectedProofs.slice(0, MAX_WITHDRAWAL_PROOFS);
    const amountSat = sumAmounts(withdrawnProofs);
    const selectedSat = sumAmounts(selectedProofs);
    const requestedSat = order.amountSat;
    if (requestedSat !== null && selectedSat !== requestedSat) {
      return { outcome: 'not_exact', requestedSat, availableSat: selectedSat };
    }
    if (requestedSat !== null && selectedProofs.length > MAX_WITHDRAWAL_PROOFS) {
      const counts = { proofCount: selectedProofs.length, maxProofs: MAX_WITHDRAWAL_PROOFS };
      return { outcome: 'too_many_proofs', requestedSat, ...counts, availableSat: amountSat };
    }
    const ys = withdrawnProofs.map(({ y }) => y);
    const storedProofs = await findTreasuryProofs(db, ys);
    const proofs = await Promise.all(storedProofs.map((each) => openProof(sealer, each)));
    const id = randomUUID();
    const sealedProofs = await sealer.seal(withdrawalSealContext(id), proofs);
    const withdrawal = { id, mintUrl, amountSat, createdAtMs: nowMs, sealedProofs };
    const isWithdrawn =
      ys.length > 0 &&
      (await tryTransaction(db, (tx) => moveProofsToWithdrawal(tx, withdrawal, ys)));
    if (!isWithdrawn) {
      return { outcome: 'conflict' };
    }
    const leftSat = sumAmounts(proofAmounts) - amountSat;
    return { outcome: 'token', id, token: encodeToken(mintUrl, proofs), amountSat, leftSat };
  }

  #requireSealer(): Sealer {
    if (this.#deps.sealer === null) {
      throw new OperatorError(`${MISSING_SECRET.message}. ${MISSING_SECRET.advice}`);
    }
    return this.#deps.sealer;
  }
}

/**
 * Returns why a treasury secret cannot open the stored ecash; null if it can, or if nothing is stored.
 *
 * @param sealer null without a treasury secret
 */
export async function findTreasuryProblem(
  sealer: Sealer | null,
  db: Db,
): Promise<{ message: string; advice: string } | null> {
  const activeKeyId = await readActiveTreasuryKeyId(db);
  const isRightSecret = sealer !== null && (activeKeyId ?? sealer.keyId) === sealer.keyId;
  if (isRightSecret || !(await hasSealedData(db))) {
    return null;
  }
  return sealer === null
    ? MISSING_SECRET
    : {
        message: `TREASURY_SECRET: is not the secret that sealed the stored ecash (its key is ${sealer.keyId}, the ecash needs ${activeKeyId})`,
        advice: 'Set the secret that sealed the ecash, or the ecash is lost.',
      };
}

const MISSING_SECRET = {
  message: 'TREASURY_SECRET: is missing, but the stored ecash needs it',
  advice:
    'Set it or, if it was generated, restore the file treasury-secret in DATA_DIR from a backup. Without it, the ecash is lost.',
};

/**
 * Selects proofs that are worth at most an amount, or all proofs if the amount is null. Takes the largest proofs
 * first. If any proofs add up to the exact amount, these do, because the amounts of proofs are powers of two.
 */
export function selectProofs<T extends { amount: number }>(
  largestFirst: readonly T[],
  amountSat: number | null,
): T[] {
  let remainingSat = amountSat ?? Number.POSITIVE_INFINITY;
  return largestFirst.filter(({ amount }) => {
    const isSelected = amount <= remainingSat;
    remainingSat -= isSelected ? amount : 0;
    return isSelected;
  });
}

function withdrawalSealContext(withdrawalId: string): string {
  return `token ${withdrawalId}`;
}
