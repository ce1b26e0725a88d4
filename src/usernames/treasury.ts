import { randomUUID } from 'node:crypto';
import type { Clock } from '../clock.ts';
import { OperatorError } from '../errors.ts';
import { type Proof, sumOfAmounts } from '../mints/ecash.ts';
import type { Store } from '../store.ts';
import { yOf } from './ecash/proofs.ts';
import { keyIdOf, type Sealer } from './ecash/seal.ts';
import { encodeToken } from './ecash/token.ts';
import type { Earnings, WaitingPurchase } from './purchase-store.ts';
import type { MintBalance, SealedProof, Withdrawal } from './treasury-store.ts';

/** Proofs of one withdrawal: wallets and mints reject much longer lists (1000). */
const MAX_PROOFS = 500;

/** How many withdrawals or purchases are listed. */
const MAX_LISTED = 100;

/** What can be withdrawn, and what is in progress. */
export interface TreasuryOverview {
  nowMs: number;
  balances: MintBalance[];
  earnings: Earnings;
  openPurchases: WaitingPurchase[];
}

/** What to withdraw. */
export interface WithdrawalOrder {
  /** Normalised; null: the only mint with ecash. */
  mintUrl: string | null;
  /** Null: everything at the mint, up to the largest proofs that fit in one token. */
  amountSat: number | null;
}

/** The result of a withdrawal. Unless it is a token, nothing was withdrawn. */
export type WithdrawalResult =
  /** `leftSat` is what can still be withdrawn at the mint. */
  | { outcome: 'token'; id: string; token: string; amountSat: number; leftSat: number }
  | { outcome: 'empty' }
  | { outcome: 'choose_mint'; balances: MintBalance[] }
  /** No proofs make up the amount; `availableSat` is what they make up below it. */
  | { outcome: 'not_exact'; requestedSat: number; availableSat: number }
  /** The amount takes more proofs than fit in one token; `availableSat` is what the largest of them make up. */
  | {
      outcome: 'too_many_proofs';
      requestedSat: number;
      proofCount: number;
      maxProofs: number;
      availableSat: number;
    }
  /** Another withdrawal took the ecash at the same time. */
  | { outcome: 'conflict' };

interface Parts {
  store: Store;
  sealer: Sealer;
  clock: Clock;
}

/** The operator's ecash: shows it, and withdraws it as `cashuB` tokens. */
export class Treasury {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Shows what can be withdrawn, what names earned, and which purchases are in progress. */
  async overview(): Promise<TreasuryOverview> {
    const { purchases, treasury } = this.#parts.store;
    return {
      nowMs: this.#parts.clock(),
      balances: await treasury.balances(),
      earnings: await purchases.earnings(),
      openPurchases: await purchases.listWaiting(MAX_LISTED),
    };
  }

  withdrawals(): Promise<Withdrawal[]> {
    return this.#parts.store.treasury.listWithdrawals(MAX_LISTED);
  }

  /**
   * Returns the token of a withdrawal again; null if there is no such withdrawal. Whether it has been redeemed is not
   * known here.
   *
   * @throws OperatorError if it was sealed with another treasury secret
   */
  async token(id: string): Promise<{ token: string; amountSat: number } | null> {
    const withdrawal = await this.#parts.store.treasury.findWithdrawal(id);
    if (withdrawal === null) {
      return null;
    }
    const { proofs: sealed, mintUrl, amountSat } = withdrawal;
    this.#requireOwnKey(sealed);
    const proofs = (await this.#parts.sealer.open(tokenContext(id), sealed)) as Proof[];
    return { token: encodeToken(mintUrl, proofs), amountSat };
  }

  /**
   * Makes a token of stored proofs, without a request to the mint. It is stored in the transaction that takes the
   * proofs out of the treasury, so that a crash loses neither.
   *
   * @throws OperatorError if the ecash was sealed with another treasury secret
   */
  async withdraw(order: WithdrawalOrder): Promise<WithdrawalResult> {
    const { store, sealer, clock } = this.#parts;
    const balances = await store.treasury.balances();
    const [balance, ...others] = balances.filter(
      ({ mintUrl }) => order.mintUrl === null || order.mintUrl === mintUrl,
    );
    if (balance === undefined) {
      return { outcome: 'empty' };
    }
    if (others.length > 0) {
      return { outcome: 'choose_mint', balances };
    }
    const { mintUrl } = balance;
    const stored = await store.treasury.listAmounts(mintUrl);
    const chosen = chooseProofs(stored, order.amountSat);
    const fitting = chosen.slice(0, MAX_PROOFS);
    const amountSat = sumOfAmounts(fitting);
    if (order.amountSat !== null) {
      const { amountSat: requestedSat } = order;
      const chosenSat = sumOfAmounts(chosen);
      if (chosenSat !== requestedSat) {
        return { outcome: 'not_exact', requestedSat, availableSat: chosenSat };
      }
      if (chosen.length > MAX_PROOFS) {
        const counts = { proofCount: chosen.length, maxProofs: MAX_PROOFS };
        return { outcome: 'too_many_proofs', requestedSat, ...counts, availableSat: amountSat };
      }
    }
    const ys = fitting.map(({ y }) => y);
    const proofs = await this.#storedProofs(ys);
    const id = randomUUID();
    const sealed = await sealer.seal(tokenContext(id), proofs);
    const withdrawal = { id, mintUrl, amountSat, createdAtMs: clock(), proofs: sealed };
    const isWithdrawn =
      ys.length > 0 && (await store.attempt((tx) => tx.treasury.withdraw(withdrawal, ys)));
    if (!isWithdrawn) {
      return { outcome: 'conflict' };
    }
    const leftSat = sumOfAmounts(stored) - amountSat;
    return { outcome: 'token', id, token: encodeToken(mintUrl, proofs), amountSat, leftSat };
  }

  async #storedProofs(ys: readonly string[]): Promise<Proof[]> {
    const sealed = await this.#parts.store.treasury.find(ys);
    for (const { proof } of sealed) {
      this.#requireOwnKey(proof);
    }
    return await Promise.all(sealed.map((each) => openProof(this.#parts.sealer, each)));
  }

  #requireOwnKey(sealed: string): void {
    const { keyId } = this.#parts.sealer;
    const usedKeyId = keyIdOf(sealed);
    if (usedKeyId !== keyId) {
      throw new OperatorError(
        `TREASURY_SECRET: key ${keyId} does not open this ecash; it was sealed with key ${usedKeyId}.`,
      );
    }
  }
}

/**
 * Chooses proofs of at most an amount; all of them if it is null. The amounts of keysets are powers of two, so this finds
 * the exact amount if any of the proofs make it up.
 */
export function chooseProofs<Piece extends { amount: number }>(
  largestFirst: readonly Piece[],
  amountSat: number | null,
): Piece[] {
  let leftSat = amountSat ?? Number.POSITIVE_INFINITY;
  return largestFirst.filter(({ amount }) => {
    const isChosen = amount <= leftSat;
    leftSat -= isChosen ? amount : 0;
    return isChosen;
  });
}

/** What the proofs of a withdrawal's token are sealed for. */
function tokenContext(id: string): string {
  return `token ${id}`;
}

/**
 * Seals the operator's proofs, each for its own row of the treasury.
 *
 * @param mintUrl where they can be spent
 */
export async function sealProofs(
  sealer: Sealer,
  mintUrl: string,
  proofs: readonly Proof[],
): Promise<SealedProof[]> {
  return await Promise.all(
    proofs.map(async (proof) => {
      const y = yOf(proof);
      const sealed = await sealer.seal(proofContext(y), proof);
      return { y, mintUrl, amountSat: proof.amount, proof: sealed };
    }),
  );
}

/** Opens a proof that {@link sealProofs} sealed. */
export async function openProof(sealer: Sealer, sealed: Pick<SealedProof, 'y' | 'proof'>) {
  return (await sealer.open(proofContext(sealed.y), sealed.proof)) as Proof;
}

function proofContext(y: string): string {
  return `treasury proof ${y}`;
}
