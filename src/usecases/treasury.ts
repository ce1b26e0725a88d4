import { randomUUID } from 'node:crypto';
import { chooseExactly, chooseWorth, mostWorthSat } from '../domain/choose-proofs.ts';
import type { Clock } from '../domain/clock.ts';
import { type Proof, sumOfAmounts } from '../domain/ecash.ts';
import { OperatorError } from '../domain/errors.ts';
import { inputFeeSat, yOf } from '../ecash/proofs.ts';
import { keyIdOf, type Sealer } from '../ecash/seal.ts';
import { encodeToken } from '../ecash/token.ts';
import type { KeysetCache } from '../mint/keyset-cache.ts';
import type { Earnings, WaitingPurchase } from '../store/purchase-store.ts';
import type { Store } from '../store/store.ts';
import type { MintBalance } from '../store/treasury-store.ts';
import type { OpenWithdrawal, Withdrawal } from '../store/withdrawal-store.ts';
import { openProof } from './keep-earnings.ts';
import { areKnown, type PlanOutputs } from './plan-outputs.ts';
import { inputsContext, type SettleSwaps } from './settle-swaps.ts';
import { tokenContext } from './settle-withdrawals.ts';

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
  openWithdrawals: Withdrawal[];
}

/** What to withdraw. */
export interface WithdrawalOrder {
  /** Normalised; null: the only mint with ecash. */
  mintUrl: string | null;
  /** Null: everything at the mint. */
  amountSat: number | null;
}

/** What came of a withdrawal. Unless a withdrawal id is given, nothing was begun. */
export type WithdrawalResult =
  | { outcome: 'token'; id: string; token: string; amountSat: number; feeSat: number }
  /** It failed, and the ecash is back in the treasury. */
  | { outcome: 'undone'; id: string; reason: string }
  /** The service goes on with it. */
  | { outcome: 'in_progress'; id: string; reason: string }
  | { outcome: 'empty' }
  | { outcome: 'choose_mint'; balances: MintBalance[] }
  /** `availableSat` is what the ecash is worth after the mint's fee. */
  | { outcome: 'short'; neededSat: number; availableSat: number }
  | { outcome: 'mint_unavailable' }
  /** Another withdrawal took the ecash at the same time. */
  | { outcome: 'conflict' };

/** The token of a withdrawal. */
export type StoredToken =
  | { outcome: 'token'; token: string; amountSat: number }
  /** The withdrawal is in progress or failed. */
  | { outcome: 'no_token'; withdrawal: Withdrawal }
  | { outcome: 'not_found' };

interface Parts {
  store: Store;
  keysets: Pick<KeysetCache, 'keysets'>;
  planOutputs: Pick<PlanOutputs, 'plan'>;
  withdrawals: Pick<SettleSwaps<OpenWithdrawal>, 'begin'>;
  sealer: Sealer;
  clock: Clock;
}

/** The operator's ecash: shows it, and withdraws it as `cashuB` tokens. */
export class Treasury {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Shows what can be withdrawn, what names earned, and what is in progress. */
  async overview(): Promise<TreasuryOverview> {
    const { purchases, treasury, withdrawals } = this.#parts.store;
    return {
      nowMs: this.#parts.clock(),
      balances: await treasury.balances(),
      earnings: await purchases.earnings(),
      openPurchases: await purchases.listWaiting(MAX_LISTED),
      openWithdrawals: await withdrawals.list('open', MAX_LISTED),
    };
  }

  async withdrawals(): Promise<{ nowMs: number; withdrawals: Withdrawal[] }> {
    const withdrawals = await this.#parts.store.withdrawals.list('all', MAX_LISTED);
    return { nowMs: this.#parts.clock(), withdrawals };
  }

  /**
   * Returns the token of a withdrawal again. Whether it has been redeemed is not known here.
   *
   * @throws OperatorError if it was sealed with another treasury secret
   */
  async token(id: string): Promise<StoredToken> {
    const withdrawal = await this.#parts.store.withdrawals.find(id);
    if (withdrawal === null) {
      return { outcome: 'not_found' };
    }
    const { state, proofs: sealed, mintUrl, amountSat } = withdrawal;
    if (state !== 'done' || sealed === null) {
      return { outcome: 'no_token', withdrawal };
    }
    this.#requireOwnKey(sealed);
    const proofs = (await this.#parts.sealer.open(tokenContext(id), sealed)) as Proof[];
    return { outcome: 'token', token: encodeToken(mintUrl, proofs), amountSat };
  }

  /**
   * Makes a token: of stored proofs if they make up the amount, otherwise by a swap at the mint. The
   * proofs are reserved and journalled first, so that neither a crash nor a lost response loses them.
   *
   * @throws OperatorError if the ecash was sealed with another treasury secret
   */
  async withdraw(order: WithdrawalOrder): Promise<WithdrawalResult> {
    const balances = await this.#parts.store.treasury.balances();
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
    const stored = await this.#storedProofs(mintUrl);
    const amountSat = order.amountSat ?? sumOfAmounts(stored);
    if (amountSat === 0) {
      return { outcome: 'conflict' };
    }
    const exact = chooseExactly(stored, amountSat);
    return exact === null
      ? this.#swapForToken(mintUrl, stored, amountSat)
      : this.#useAsToken(mintUrl, exact, amountSat);
  }

  async #useAsToken(
    mintUrl: string,
    proofs: readonly Proof[],
    amountSat: number,
  ): Promise<WithdrawalResult> {
    const id = randomUUID();
    const token = await this.#parts.sealer.seal(tokenContext(id), proofs);
    const nowMs = this.#parts.clock();
    const withdrawal = { id, mintUrl, amountSat, createdAtMs: nowMs, inputs: token, plans: [] };
    const isDone = await this.#parts.store.attempt(async (tx) => {
      await tx.withdrawals.open(withdrawal, id);
      await tx.withdrawals.finish(id, id, { token, feeSat: 0, nowMs });
      return tx.treasury.remove(proofs.map(yOf));
    });
    return isDone ? this.#result(id) : { outcome: 'conflict' };
  }

  async #swapForToken(
    mintUrl: string,
    stored: readonly Proof[],
    amountSat: number,
  ): Promise<WithdrawalResult> {
    const keysets = await this.#parts.keysets.keysets(mintUrl);
    if (keysets === null || !areKnown(stored, keysets)) {
      return { outcome: 'mint_unavailable' };
    }
    const feeSat = (proofs: readonly Proof[]) => inputFeeSat(proofs, keysets);
    const inputs = chooseWorth(stored, amountSat, feeSat);
    if (inputs === null) {
      const availableSat = mostWorthSat(stored, feeSat);
      return { outcome: 'short', neededSat: amountSat, availableSat };
    }
    const planned = await this.#parts.planOutputs.plan(mintUrl, inputs, { exactSat: amountSat });
    if (planned.outcome !== 'planned') {
      return { outcome: 'mint_unavailable' };
    }
    const id = randomUUID();
    const withdrawal = {
      id,
      mintUrl,
      amountSat,
      createdAtMs: this.#parts.clock(),
      inputs: await this.#parts.sealer.seal(inputsContext('withdrawal', id), inputs),
      plans: [planned.plan],
    };
    await this.#parts.withdrawals.begin(id, (holder) =>
      this.#parts.store.attempt(async (tx) => {
        await tx.withdrawals.open(withdrawal, holder);
        return tx.treasury.remove(inputs.map(yOf));
      }),
    );
    return this.#result(id);
  }

  async #result(id: string): Promise<WithdrawalResult> {
    const withdrawal = await this.#parts.store.withdrawals.find(id);
    if (withdrawal === null) {
      return { outcome: 'conflict' };
    }
    const { state, reason, feeSat } = withdrawal;
    switch (state) {
      case 'open':
        return { outcome: 'in_progress', id, reason: reason ?? 'the mint has not answered yet' };
      case 'undone':
        return { outcome: 'undone', id, reason: reason ?? '' };
      case 'done': {
        const stored = await this.token(id);
        if (stored.outcome !== 'token') {
          throw new Error(`the token of withdrawal ${id} is missing`);
        }
        return { ...stored, id, feeSat: feeSat ?? 0 };
      }
    }
  }

  /** The largest proofs at a mint. */
  async #storedProofs(mintUrl: string): Promise<Proof[]> {
    const sealed = await this.#parts.store.treasury.list(mintUrl, MAX_PROOFS);
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
