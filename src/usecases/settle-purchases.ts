import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../domain/clock.ts';
import type { Proof } from '../domain/ecash.ts';
import type { Sealer } from '../ecash/seal.ts';
import type { Log } from '../log.ts';
import type { OpenPurchase } from '../store/purchase-store.ts';
import type { Store } from '../store/store.ts';
import { sealProofs } from './keep-earnings.ts';
import type { PlanOutputs } from './plan-outputs.ts';
import { notifyAddresses } from './recipients.ts';
import { type Settlement, SettleSwaps, type UndoReason } from './settle-swaps.ts';
import type { SwapEcash } from './swap-ecash.ts';

/** How long a buyer waits for the run that has the lease: about as long as a mint may take. */
const WAIT_INTERVAL_MS = 250;
const MAX_WAITS = 40;

/** Redeems the tokens of journalled purchases and gives their names. */
export class SettlePurchases {
  readonly #store: Store;
  readonly #sealer: Sealer;
  readonly #graceMs: number;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #swaps: SettleSwaps<OpenPurchase>;

  /** @param parts.graceMs how long a released name stays reserved for its previous owner */
  constructor(parts: {
    store: Store;
    swapEcash: Pick<SwapEcash, 'begin' | 'resume'>;
    planOutputs: Pick<PlanOutputs, 'plan'>;
    sealer: Sealer;
    graceMs: number;
    clock: Clock;
    log: Log;
  }) {
    this.#store = parts.store;
    this.#sealer = parts.sealer;
    this.#graceMs = parts.graceMs;
    this.#clock = parts.clock;
    this.#log = parts.log;
    this.#swaps = new SettleSwaps<OpenPurchase>(
      {
        kind: 'purchase',
        store: parts.store.purchases,
        exactSat: () => null,
        commit: (purchase, holder, { proofs }) => this.#commit(purchase, holder, proofs),
        rollBack: (purchase, holder, { reason }) => this.#rollBack(purchase, holder, reason),
      },
      parts,
    );
  }

  /**
   * Writes a purchase and redeems its token.
   *
   * @param open writes the purchase, with its lease for this holder; false if it cannot be written
   * @returns null if it was not written, or another run has settled it
   */
  begin(id: string, open: (holder: string) => Promise<boolean>): Promise<Settlement | null> {
    return this.#swaps.begin(id, open);
  }

  /**
   * Continues with a purchase, or waits a while for the run that has its lease.
   *
   * @returns null if another run has settled it
   */
  async resume(id: string): Promise<Settlement | null> {
    for (let waits = 0; waits < MAX_WAITS; waits += 1) {
      const settlement = await this.#swaps.resume(id);
      if (settlement !== null) {
        return settlement;
      }
      if ((await this.#store.purchases.findOpen(id)) === null) {
        return null;
      }
      await delay(WAIT_INTERVAL_MS);
    }
    return { outcome: 'unsettled' };
  }

  /** One round of the recovery job. */
  runDue(): Promise<void> {
    return this.#swaps.runDue();
  }

  /** Resolves when this process works on no purchase. */
  idle(): Promise<void> {
    return this.#swaps.idle();
  }

  async #commit(
    { id, pubkey, name, mintUrl }: OpenPurchase,
    holder: string,
    proofs: readonly Proof[],
  ): Promise<boolean> {
    const sealed = await sealProofs(this.#sealer, mintUrl, proofs);
    const nowMs = this.#clock();
    const isDone = await this.#store.transaction(async (tx) => {
      if (!(await tx.purchases.finish(id, holder, nowMs))) {
        return false;
      }
      await notifyAddresses(tx, pubkey);
      const claim = { pubkey, purchase: id, nowMs, graceMs: this.#graceMs };
      if ((await tx.usernames.give(name, claim)) === 'not_held') {
        throw new Error(`the name of purchase ${id} is no longer held for it`);
      }
      await tx.treasury.add(sealed);
      return true;
    });
    if (isDone) {
      this.#log.info({ purchase: id, name, pubkey }, 'a username was bought');
    }
    return isDone;
  }

  async #rollBack(
    { id, name, pubkey }: OpenPurchase,
    holder: string,
    reason: UndoReason,
  ): Promise<boolean> {
    const isUndone = await this.#store.transaction(async (tx) => {
      if (!(await tx.purchases.undo(id, holder, reason, this.#clock()))) {
        return false;
      }
      await tx.usernames.letGo(name, id);
      return true;
    });
    if (isUndone) {
      this.#log.info({ purchase: id, name, pubkey, reason }, 'a purchase of a username was undone');
    }
    return isUndone;
  }
}
