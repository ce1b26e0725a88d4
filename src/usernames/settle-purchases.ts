import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../clock.ts';
import { retryLogLevel } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Proof } from '../mints/ecash.ts';
import type { SwapRefusal } from '../mints/ecash-refusal.ts';
import type { KeysetCache } from '../mints/keyset-cache.ts';
import { notifyAddresses } from '../recipients/recipients.ts';
import type { Store } from '../store.ts';
import type { Sealer } from './ecash/seal.ts';
import type { OpenPurchase } from './purchase-store.ts';
import { LEASE_LOST, planSwap, type Swap, type SwapEcash, type SwapResult } from './swap-ecash.ts';
import { sealProofs } from './treasury.ts';

/** How often the recovery job looks for due purchases. */
export const SETTLE_INTERVAL_MS = 5_000;

/** The delay before the first retry; it doubles with each further one. */
const FIRST_RETRY_MS = 5_000;
const LONGEST_RETRY_MS = 10 * 60_000;

/**
 * If a response was lost and the mint then refuses the repeated request, the refusal counts only when it is
 * repeated after this time: far longer than a request can be on its way.
 */
const CONFIRM_REFUSAL_AFTER_MS = 60_000;

/** Purchases that one round of the recovery job settles, all at once. */
const BATCH_SIZE = 10;

/** How long a buyer waits for the run that has the lease: about as long as a mint may take. */
const WAIT_INTERVAL_MS = 250;
const MAX_WAITS = 40;

interface SettlePurchasesParts {
  store: Store;
  swapEcash: Pick<SwapEcash, 'begin' | 'resume'>;
  keysets: Pick<KeysetCache, 'keysets' | 'refresh' | 'keys'>;
  sealer: Sealer;
  /** How long a released name stays reserved for its previous owner. */
  graceMs: number;
  clock: Clock;
  log: Log;
}

/** Why a purchase was given up. */
export type UndoReason = SwapRefusal | 'mint_unreachable';

/** How an attempt to settle a purchase ended. */
export type Settlement =
  | { outcome: 'done' }
  | { outcome: 'undone'; reason: UndoReason }
  /** The recovery job tries again. */
  | { outcome: 'unsettled' };

/**
 * Redeems the tokens of journalled purchases and gives their names: at once for the buyer who waits, and by the
 * recovery job after a crash or a mint's failure. Each purchase is leased to one run at a time, and every step can be
 * repeated.
 */
export class SettlePurchases {
  readonly #parts: SettlePurchasesParts;
  /** By id: callers in this process share one run. */
  readonly #running = new Map<string, Promise<Settlement | null>>();

  constructor(parts: SettlePurchasesParts) {
    this.#parts = parts;
  }

  /**
   * Writes a purchase and carries it out.
   *
   * @param open writes the purchase, with its lease for this holder; false if it cannot be written
   * @returns null if it was not written
   */
  begin(id: string, open: (holder: string) => Promise<boolean>): Promise<Settlement | null> {
    const holder = randomUUID();
    return this.#once(id, async () =>
      (await open(holder)) ? this.#settle(id, holder, true) : null,
    );
  }

  /** Continues with a purchase; null if another process has its lease or has settled it. */
  resume(id: string): Promise<Settlement | null> {
    const holder = randomUUID();
    const { store, clock } = this.#parts;
    return this.#once(id, async () =>
      (await store.purchases.take(id, holder, clock())) ? this.#settle(id, holder, false) : null,
    );
  }

  /**
   * Continues with a purchase, or waits a while for the run that has its lease.
   *
   * @returns null if another process has settled it
   */
  async resumeOrWait(id: string): Promise<Settlement | null> {
    for (let waits = 0; waits < MAX_WAITS; waits += 1) {
      const settlement = await this.resume(id);
      if (settlement !== null || (await this.#parts.store.purchases.findOpen(id)) === null) {
        return settlement;
      }
      await delay(WAIT_INTERVAL_MS);
    }
    return { outcome: 'unsettled' };
  }

  /** One round of the recovery job: continues with the purchases that are due. */
  async runDue(): Promise<void> {
    const { store, clock } = this.#parts;
    const due = await store.purchases.listDue(clock(), BATCH_SIZE);
    await Promise.all(due.map((id) => this.resume(id)));
  }

  /** Resolves when this process works on no purchase. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#running.values());
  }

  async #settle(id: string, holder: string, isNew: boolean): Promise<Settlement | null> {
    const purchase = await this.#parts.store.purchases.findOpen(id);
    if (purchase === null) {
      return null;
    }
    try {
      return await this.#carryOut(purchase, holder, isNew);
    } catch (error) {
      this.#parts.log[retryLogLevel(error)](
        { err: error, purchase: id },
        'a purchase failed; it will be retried',
      );
      return this.#postpone(purchase, holder, { reason: 'an error; see the log' });
    }
  }

  async #carryOut(
    purchase: OpenPurchase,
    holder: string,
    isNew: boolean,
  ): Promise<Settlement | null> {
    const context = tokenContext(purchase.id);
    const inputs = (await this.#parts.sealer.open(context, purchase.token)) as Proof[];
    const result = await this.#swap(purchase, holder, inputs, isNew);
    switch (result.outcome) {
      case 'done':
        return this.#commit(purchase, holder, result.proofs);
      case 'refused':
        return result.isFinal || this.#isRefusalConfirmed(purchase)
          ? this.#rollBack(purchase, holder, result.reason)
          : this.#postpone(purchase, holder, { reason: 'refused by the mint', isRefused: true });
      case 'unsettled':
        return isNew && result.isUnsent
          ? this.#rollBack(purchase, holder, 'mint_unreachable')
          : this.#postpone(purchase, holder, { reason: result.reason });
    }
  }

  /** Swaps the token, with a new plan of outputs if the mint has changed its keysets or fees. */
  async #swap(
    { id, mintUrl, plans }: OpenPurchase,
    holder: string,
    inputs: readonly Proof[],
    isNew: boolean,
  ): Promise<Exclude<SwapResult, { outcome: 'plan_outdated' }>> {
    const { swapEcash, keysets, store, clock } = this.#parts;
    const renewLease = () => store.purchases.renew(id, holder, clock());
    const swap: Swap = { id, mintUrl, inputs, plans, renewLease };
    const first = await swapEcash[isNew ? 'begin' : 'resume'](swap);
    if (first.outcome !== 'plan_outdated') {
      return first;
    }
    const planned = await planSwap(keysets, mintUrl, inputs, { isFresh: true });
    if (planned.outcome === 'unavailable') {
      return { outcome: 'unsettled', reason: 'the mint does not answer', isUnsent: false };
    }
    if (planned.outcome === 'short') {
      return { outcome: 'refused', reason: 'unbalanced', isFinal: first.isFinal };
    }
    const allPlans = [...plans, planned.plan];
    if (!(await store.purchases.setPlans(id, holder, allPlans))) {
      return { outcome: 'unsettled', reason: LEASE_LOST, isUnsent: false };
    }
    const second = await swapEcash.resume({ ...swap, plans: allPlans });
    if (second.outcome !== 'plan_outdated') {
      return second;
    }
    // This says nothing against the proofs: the mint lists other keysets or fees than it applies.
    return first.isFinal
      ? { outcome: 'unsettled', reason: 'the keysets of the mint changed', isUnsent: true }
      : { outcome: 'refused', reason: 'other', isFinal: false };
  }

  /** Gives the name and keeps the proofs. @returns null if another run has taken over */
  async #commit(
    { id, pubkey, name, mintUrl }: OpenPurchase,
    holder: string,
    proofs: readonly Proof[],
  ): Promise<Settlement | null> {
    const { store, sealer, graceMs, clock, log } = this.#parts;
    const sealed = await sealProofs(sealer, mintUrl, proofs);
    const nowMs = clock();
    const isDone = await store.transaction(async (tx) => {
      if (!(await tx.purchases.finish(id, holder, nowMs))) {
        return false;
      }
      await notifyAddresses(tx, pubkey);
      const claim = { pubkey, purchase: id, nowMs, graceMs };
      if ((await tx.usernames.give(name, claim)) === 'not_held') {
        throw new Error(`the name of purchase ${id} is no longer held for it`);
      }
      await tx.treasury.add(sealed);
      return true;
    });
    if (!isDone) {
      return null;
    }
    log.info({ purchase: id, name, pubkey }, 'a username was bought');
    return { outcome: 'done' };
  }

  /** Gives the purchase up. @returns null if another run has taken over */
  async #rollBack(
    { id, name, pubkey }: OpenPurchase,
    holder: string,
    reason: UndoReason,
  ): Promise<Settlement | null> {
    const { store, clock, log } = this.#parts;
    const isUndone = await store.transaction(async (tx) => {
      const isEnded = await tx.purchases.undo(id, holder, reason, clock());
      if (isEnded) {
        await tx.usernames.letGo(name, id);
      }
      return isEnded;
    });
    if (!isUndone) {
      return null;
    }
    log.info({ purchase: id, name, pubkey, reason }, 'a purchase of a username was undone');
    return { outcome: 'undone', reason };
  }

  async #postpone(
    { id, tries, refusedAtMs }: OpenPurchase,
    holder: string,
    { reason, isRefused = false }: { reason: string; isRefused?: boolean },
  ): Promise<Settlement> {
    const { store, clock, log } = this.#parts;
    const nowMs = clock();
    const delayMs = isRefused
      ? CONFIRM_REFUSAL_AFTER_MS
      : Math.min(FIRST_RETRY_MS * 2 ** tries, LONGEST_RETRY_MS);
    const nextTryAtMs = nowMs + delayMs;
    await store.purchases.postpone(id, holder, {
      reason,
      tries: tries + 1,
      nextTryAtMs,
      refusedAtMs: isRefused ? Math.min(refusedAtMs ?? nowMs, nowMs) : null,
    });
    // A buyer who repeats the request again and again must not fill the log.
    if (Number.isInteger(Math.log2(tries + 1))) {
      const nextTryAt = new Date(nextTryAtMs);
      log.warn(
        { purchase: id, reason, tries: tries + 1, nextTryAt },
        'a purchase is not settled yet',
      );
    }
    return { outcome: 'unsettled' };
  }

  #isRefusalConfirmed({ refusedAtMs }: OpenPurchase): boolean {
    return refusedAtMs !== null && this.#parts.clock() - refusedAtMs >= CONFIRM_REFUSAL_AFTER_MS;
  }

  #once(id: string, work: () => Promise<Settlement | null>): Promise<Settlement | null> {
    const running = this.#running.get(id) ?? work().finally(() => this.#running.delete(id));
    this.#running.set(id, running);
    return running;
  }
}

/** What the token of a purchase is sealed for. */
export function tokenContext(purchase: string): string {
  return `purchase ${purchase}`;
}
