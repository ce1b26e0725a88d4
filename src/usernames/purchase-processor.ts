import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../clock.ts';
import { retryLogLevel } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { OutputPlan, Proof } from '../mints/ecash.ts';
import type { SwapRejectionReason } from '../mints/swap-rejection.ts';
import { notifyRecipientChange } from '../recipients/recipient-directory.ts';
import type { Store } from '../store.ts';
import { computeY } from './ecash/proofs.ts';
import { type Sealer, sealProofs } from './ecash/sealer.ts';
import {
  LEASE_LOST_REASON,
  planSwap,
  runSwap,
  type SwapContext,
  type SwapResult,
} from './ecash-swap.ts';
import type { NewPurchase, OpenPurchase } from './purchase-store.ts';

export const PURCHASE_RECOVERY_INTERVAL_MS = 5_000;

const FIRST_RETRY_DELAY_MS = 5_000;
const MAX_RETRY_DELAY_MS = 10 * 60_000;

/**
 * If a response was lost and the mint then rejects the repeated request, the rejection counts only if it is repeated
 * after this time, which is far longer than a request can be in transit.
 */
const CONFIRM_REJECTION_AFTER_MS = 60_000;

/** Purchases that one round of the recovery job processes concurrently. */
const RECOVERY_BATCH_SIZE = 10;

/** How long a buyer waits for the run that has the lease: about as long as a mint may take. */
const LEASE_WAIT_INTERVAL_MS = 250;
const MAX_LEASE_WAITS = 40;

interface PurchaseProcessorDeps {
  store: Store;
  swapContext: SwapContext;
  sealer: Sealer;
  graceMs: number;
  clock: Clock;
  log: Logger;
}

export interface NewPurchaseOrder
  extends Pick<NewPurchase, 'pubkey' | 'name' | 'priceSat' | 'mintUrl'> {
  /** When the name was read as free. */
  nowMs: number;
  payment: { proofs: readonly Proof[]; faceValueSat: number };
}

export type PurchaseFailureReason = SwapRejectionReason | 'fee_exceeds_value' | 'mint_unreachable';

export type PurchaseAttemptResult =
  | { outcome: 'completed' }
  | { outcome: 'failed'; reason: PurchaseFailureReason }
  /** The recovery job will retry. */
  | { outcome: 'pending' };

type LeasedPurchase = OpenPurchase & { holder: string };

/**
 * Journals purchases, redeems their tokens and assigns their names: immediately for the waiting buyer, or by the
 * recovery job after a crash or a failure of the mint. One run at a time has the lease of a purchase, and every step
 * can be repeated.
 */
export class PurchaseProcessor {
  readonly #deps: PurchaseProcessorDeps;
  /** By purchase id: callers in this process share one run. */
  readonly #runs = new Map<string, Promise<PurchaseAttemptResult | null>>();

  constructor(deps: PurchaseProcessorDeps) {
    this.#deps = deps;
  }

  /** @returns null if the name or the token was used concurrently, or another run has taken over */
  async start(order: NewPurchaseOrder): Promise<PurchaseAttemptResult | null> {
    const { keysetCache } = this.#deps.swapContext;
    const planned = await planSwap(keysetCache, order.mintUrl, order.payment.proofs, false);
    if (planned.outcome === 'failed') {
      return planned;
    }
    const id = randomUUID();
    return this.#run(id, true, (holder) => this.#journal(id, holder, order, planned.plan));
  }

  /** Resumes a purchase; null if another process has its lease or has closed it. */
  resume(id: string): Promise<PurchaseAttemptResult | null> {
    const { store, clock } = this.#deps;
    return this.#run(id, false, (holder) => store.purchases.acquireLease(id, holder, clock()));
  }

  /**
   * Resumes a purchase, or waits for the run that has its lease.
   *
   * @returns null if another process has closed it
   */
  async resumeOrWait(id: string): Promise<PurchaseAttemptResult | null> {
    for (let attempt = 0; attempt < MAX_LEASE_WAITS; attempt += 1) {
      const result = await this.resume(id);
      if (result !== null || (await this.#deps.store.purchases.findOpen(id)) === null) {
        return result;
      }
      await delay(LEASE_WAIT_INTERVAL_MS);
    }
    return { outcome: 'pending' };
  }

  async resumeDue(): Promise<void> {
    const { store, clock } = this.#deps;
    const due = await store.purchases.listDue(clock(), RECOVERY_BATCH_SIZE);
    await Promise.all(due.map((id) => this.resume(id)));
  }

  /** Resolves when this process works on no purchase. */
  async waitUntilIdle(): Promise<void> {
    await Promise.allSettled(this.#runs.values());
  }

  /**
   * Holds the name and stores the token before the token is redeemed, so that a crash loses neither.
   *
   * @returns false if the name or the token was used concurrently
   */
  async #journal(
    id: string,
    leaseHolder: string,
    order: NewPurchaseOrder,
    outputPlan: OutputPlan,
  ): Promise<boolean> {
    const { store, sealer, clock } = this.#deps;
    const { payment } = order;
    const sealedProofs = await sealer.seal(purchaseSealContext(id), payment.proofs);
    return store.tryTransaction(async (tx) => {
      if (!(await tx.usernames.hold(order.name, { ...order, purchaseId: id }))) {
        return false;
      }
      await tx.purchases.insert({
        ...order,
        id,
        paidSat: payment.faceValueSat,
        // Read again: since `nowMs`, the mint may have taken longer than a lease lasts.
        createdAtMs: clock(),
        sealedProofs,
        outputPlan,
        leaseHolder,
      });
      if (!(await tx.treasury.isActiveKey(sealer.keyId))) {
        throw new Error('a process with another TREASURY_SECRET uses this database');
      }
      return tx.purchases.claimProofs(id, payment.proofs.map(computeY));
    });
  }

  /** @param acquireLease false: the purchase cannot start or resume now */
  #run(
    id: string,
    isNew: boolean,
    acquireLease: (holder: string) => Promise<boolean>,
  ): Promise<PurchaseAttemptResult | null> {
    const attempt = async () => {
      const holder = randomUUID();
      const hasLease = await acquireLease(holder);
      return hasLease ? this.#attempt(id, holder, isNew) : null;
    };
    const running = this.#runs.get(id) ?? attempt().finally(() => this.#runs.delete(id));
    this.#runs.set(id, running);
    return running;
  }

  async #attempt(
    id: string,
    holder: string,
    isNew: boolean,
  ): Promise<PurchaseAttemptResult | null> {
    const openPurchase = await this.#deps.store.purchases.findOpen(id);
    if (openPurchase === null) {
      return null;
    }
    const purchase = { ...openPurchase, holder };
    try {
      return await this.#redeem(purchase, isNew);
    } catch (error) {
      this.#deps.log[retryLogLevel(error)](
        { event: 'username_purchase_error', err: error, purchase: id },
        'error while processing a username purchase; will retry',
      );
      return this.#scheduleRetry(purchase, 'an error; see the log');
    }
  }

  async #redeem(purchase: LeasedPurchase, isNew: boolean): Promise<PurchaseAttemptResult | null> {
    const context = purchaseSealContext(purchase.id);
    const inputs = (await this.#deps.sealer.open(context, purchase.sealedProofs)) as Proof[];
    const result = await this.#swapToken(purchase, inputs, isNew);
    const { firstRejectedAtMs } = purchase;
    const isRejectionConfirmed =
      firstRejectedAtMs !== null &&
      this.#deps.clock() - firstRejectedAtMs >= CONFIRM_REJECTION_AFTER_MS;
    switch (result.outcome) {
      case 'done':
        return this.#complete(purchase, result.proofs);
      case 'rejected':
        return result.isFinal || isRejectionConfirmed
          ? this.#fail(purchase, result.reason)
          : this.#scheduleRetry(purchase, 'rejected by the mint', true);
      case 'unknown':
        return result.isUnsent
          ? this.#fail(purchase, 'mint_unreachable')
          : this.#scheduleRetry(purchase, result.reason);
    }
  }

  /** Swaps the token; with a new output plan if the mint has changed its keysets or fees. */
  async #swapToken(
    { id, holder, mintUrl, outputPlans }: LeasedPurchase,
    inputs: readonly Proof[],
    isNew: boolean,
  ): Promise<Exclude<SwapResult, { outcome: 'plan_outdated' }>> {
    const { swapContext, store, clock } = this.#deps;
    const renewLease = () => store.purchases.renewLease(id, holder, clock());
    const swap = { id, mintUrl, inputs, outputPlans, renewLease };
    const first = await runSwap(swapContext, swap, isNew);
    if (first.outcome !== 'plan_outdated') {
      return first;
    }
    const planned = await planSwap(swapContext.keysetCache, mintUrl, inputs, true);
    if (planned.outcome === 'failed') {
      return planned.reason === 'mint_unreachable'
        ? { outcome: 'unknown', reason: 'the mint does not respond', isUnsent: false }
        : { outcome: 'rejected', reason: 'unbalanced', isFinal: first.isFinal };
    }
    const extendedPlans = [...outputPlans, planned.plan];
    if (!(await store.purchases.setOutputPlans(id, holder, extendedPlans))) {
      return { outcome: 'unknown', reason: LEASE_LOST_REASON, isUnsent: false };
    }
    const second = await runSwap(swapContext, { ...swap, outputPlans: extendedPlans }, false);
    if (second.outcome !== 'plan_outdated') {
      return second;
    }
    // The token may be valid: the mint lists other keysets or fees than it applies.
    return first.isFinal
      ? { outcome: 'unknown', reason: 'the keysets of the mint changed', isUnsent: true }
      : { outcome: 'rejected', reason: 'other', isFinal: false };
  }

  /** Assigns the name and stores the new proofs. @returns null if another run has taken over */
  async #complete(
    { id, holder, pubkey, name, mintUrl }: LeasedPurchase,
    proofs: readonly Proof[],
  ): Promise<PurchaseAttemptResult | null> {
    const { store, sealer, graceMs, clock, log } = this.#deps;
    const sealed = await sealProofs(sealer, mintUrl, proofs);
    const nowMs = clock();
    const isCompleted = await store.transaction(async (tx) => {
      if (!(await tx.purchases.complete(id, holder, nowMs))) {
        return false;
      }
      await notifyRecipientChange(tx, pubkey);
      if (!(await tx.usernames.assignHeld(name, { pubkey, purchaseId: id, nowMs, graceMs }))) {
        throw new Error(`the name of purchase ${id} is no longer held for it`);
      }
      await tx.treasury.addProofs(sealed);
      return true;
    });
    if (!isCompleted) {
      return null;
    }
    log.info({ event: 'username_sold', purchase: id, name, pubkey }, 'username sold');
    return { outcome: 'completed' };
  }

  /** Frees the name. @returns null if another run has taken over */
  async #fail(
    { id, holder, name, pubkey }: LeasedPurchase,
    reason: PurchaseFailureReason,
  ): Promise<PurchaseAttemptResult | null> {
    const { store, clock, log } = this.#deps;
    const isFailed = await store.transaction(async (tx) => {
      const isUpdated = await tx.purchases.fail(id, holder, reason, clock());
      if (isUpdated) {
        await tx.usernames.releaseHold(name, id);
      }
      return isUpdated;
    });
    if (!isFailed) {
      return null;
    }
    log.info(
      { event: 'username_purchase_failed', purchase: id, name, pubkey, reason },
      'username purchase failed; the name is free again',
    );
    return { outcome: 'failed', reason };
  }

  async #scheduleRetry(
    { id, holder, attempts: previousAttempts, firstRejectedAtMs }: LeasedPurchase,
    reason: string,
    isRejected = false,
  ): Promise<PurchaseAttemptResult> {
    const { store, clock, log } = this.#deps;
    const nowMs = clock();
    const attempts = previousAttempts + 1;
    const delayMs = isRejected
      ? CONFIRM_REJECTION_AFTER_MS
      : Math.min(FIRST_RETRY_DELAY_MS * 2 ** previousAttempts, MAX_RETRY_DELAY_MS);
    const nextTryAtMs = nowMs + delayMs;
    await store.purchases.scheduleRetry(id, holder, {
      reason,
      attempts,
      nextTryAtMs,
      firstRejectedAtMs: isRejected ? Math.min(firstRejectedAtMs ?? nowMs, nowMs) : null,
    });
    // A buyer who repeats the request many times must not flood the log.
    if (Number.isInteger(Math.log2(attempts))) {
      const nextTryAt = new Date(nextTryAtMs);
      log.warn(
        { event: 'username_purchase_pending', purchase: id, reason, attempts, nextTryAt },
        'username purchase is still pending; will retry',
      );
    }
    return { outcome: 'pending' };
  }
}

function purchaseSealContext(purchaseId: string): string {
  return `purchase ${purchaseId}`;
}
