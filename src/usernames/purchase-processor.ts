import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../clock.ts';
import { type Db, transaction, tryTransaction } from '../database/transaction.ts';
import { retryLogLevel } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { OutputPlan, Proof } from '../mints/ecash.ts';
import type { MintPermit, MintRateLimiter } from '../mints/mint-rate-limiter.ts';
import type { SwapRejectionReason } from '../mints/swap-rejection.ts';
import { notifyRecipientChange } from '../recipients/recipient-directory.ts';
import { hashSecret } from './ecash/proofs.ts';
import {
  checkSwap,
  planSwap,
  runSwap,
  type Swap,
  type SwapContext,
  type SwapResult,
} from './ecash-swap.ts';
import {
  acquirePurchaseLease,
  claimProofs,
  completePurchase,
  failPurchase,
  findOpenPurchase,
  insertPurchase,
  listDuePurchases,
  type NewPurchase,
  type OpenPurchase,
  renewPurchaseLease,
  saveOutputPlans,
  schedulePurchaseRetry,
} from './purchase-store.ts';
import { type Sealer, sealProofs } from './sealer.ts';
import { addTreasuryProofs, isActiveTreasuryKey } from './treasury-store.ts';
import { assignHeldUsername, holdUsername, releaseHeldUsername } from './username-store.ts';

export const PURCHASE_RECOVERY_INTERVAL_MS = 5_000;

const FIRST_RETRY_DELAY_MS = 5_000;
const MAX_RETRY_DELAY_MS = 10 * 60_000;

/**
 * No request for a swap can still be in transit after this time. If a response was lost, a rejection or the state
 * `UNSPENT` is final only if the mint repeats it afterwards.
 */
const MAX_TRANSIT_MS = 60_000;

/** A mint that fails for so long has a lasting fault. The name should not stay on hold, and the buyer keeps the token. */
const UNDO_AFTER_MS = 24 * 60 * 60_000;

/** Purchases that the recovery job resumes concurrently. */
const RECOVERY_BATCH_SIZE = 10;

const LEASE_WAIT_INTERVAL_MS = 250;

/** How many intervals a buyer waits for the run that has the lease: about as long as a mint may take. */
const MAX_LEASE_WAITS = 40;

interface PurchaseProcessorDeps {
  db: Db;
  limiter: MintRateLimiter;
  swapContext: SwapContext;
  sealer: Sealer;
  graceMs: number;
  clock: Clock;
  log: Logger;
}

interface NewPurchaseOrder extends Pick<NewPurchase, 'pubkey' | 'name' | 'priceSat' | 'mintUrl'> {
  /** When the database reported the name as free. */
  nowMs: number;
  /** The prefix of the buyer's address in which clients take turns. */
  addressGroup: string;
  payment: { proofs: readonly Proof[]; faceValueSat: number };
}

export type PurchaseFailureReason =
  | SwapRejectionReason
  | 'fee_exceeds_value'
  | 'mint_unreachable'
  /** For a day, the mint reported the token as unspent, but did not respond to the swap. */
  | 'no_response';

/** The mint's rate limit is reached, and nothing was stored. */
type MintBusy = { outcome: 'mint_busy'; retryAfterMs: number };

export type PurchaseAttemptResult =
  | { outcome: 'completed' }
  | { outcome: 'failed'; reason: PurchaseFailureReason }
  /** The recovery job will retry. */
  | { outcome: 'pending' };

type LeasedPurchase = OpenPurchase & { holder: string };

/**
 * Writes purchases to the journal, redeems their tokens and assigns their names. This happens while the buyer waits,
 * or in the recovery job after a crash or a failure of the mint. Each attempt is a run that needs the lease of the
 * purchase, and every step can be repeated.
 */
export class PurchaseProcessor {
  readonly #deps: PurchaseProcessorDeps;
  /** By purchase id. Callers in this process share a run. */
  readonly #runs = new Map<string, Promise<PurchaseAttemptResult | null>>();

  constructor(deps: PurchaseProcessorDeps) {
    this.#deps = deps;
  }

  /**
   * Starts a purchase, and waits for its first run. Holds the name only once the mint's rate limit permits the swap.
   *
   * @returns null if another request took the name or the token, or another run has taken over
   */
  async start(order: NewPurchaseOrder): Promise<PurchaseAttemptResult | MintBusy | null> {
    const { swapContext, limiter } = this.#deps;
    const { mintUrl, addressGroup, payment } = order;
    const planResult = await planSwap(swapContext, mintUrl, payment.proofs);
    if (planResult.outcome === 'failed') {
      return planResult;
    }
    const maxWaitMs = limiter.payerMaxWaitMs;
    const acquired = await limiter.acquire(mintUrl, 'swap', { addressGroup, maxWaitMs });
    if (acquired.outcome === 'rate_limited') {
      return { ...acquired, outcome: 'mint_busy' };
    }
    const unusedPermits = [acquired.permit];
    const id = randomUUID();
    try {
      return await this.#run(
        id,
        (holder) => this.#journal(id, holder, order, planResult.plan),
        () => unusedPermits.pop(),
      );
    } finally {
      unusedPermits.pop()?.cancel();
    }
  }

  /** Resumes a purchase. Returns null if another process has the lease or has closed the purchase. */
  resume(id: string): Promise<PurchaseAttemptResult | null> {
    const { db, clock } = this.#deps;
    return this.#run(id, (holder) => acquirePurchaseLease(db, id, holder, clock()));
  }

  /**
   * Resumes a purchase, or waits for the run that has its lease.
   *
   * @returns null if another process has closed the purchase
   */
  async resumeOrWait(id: string): Promise<PurchaseAttemptResult | null> {
    for (let attempt = 0; attempt < MAX_LEASE_WAITS; attempt += 1) {
      const result = await this.resume(id);
      if (result !== null || (await findOpenPurchase(this.#deps.db, id)) === null) {
        return result;
      }
      await delay(LEASE_WAIT_INTERVAL_MS);
    }
    return { outcome: 'pending' };
  }

  async resumeDue(): Promise<void> {
    const { db, clock } = this.#deps;
    const due = await listDuePurchases(db, clock(), RECOVERY_BATCH_SIZE);
    await Promise.all(due.map((id) => this.resume(id)));
  }

  /** Resolves when all runs of this process have ended. */
  async waitUntilIdle(): Promise<void> {
    await Promise.allSettled(this.#runs.values());
  }

  /**
   * Reserves the name and stores the token. Later the token is redeemed, and a crash then loses neither of them.
   *
   * @returns false if another request took the name or the token
   */
  async #journal(
    id: string,
    leaseHolder: string,
    order: NewPurchaseOrder,
    outputPlan: OutputPlan,
  ): Promise<boolean> {
    const { db, sealer, clock } = this.#deps;
    const { payment } = order;
    const sealedProofs = await sealer.seal(purchaseSealContext(id), payment.proofs);
    const secretHashes = payment.proofs.map(hashSecret);
    return tryTransaction(db, async (tx) => {
      if (!(await holdUsername(tx, order.name, { ...order, purchaseId: id }))) {
        return false;
      }
      await insertPurchase(tx, {
        ...order,
        id,
        paidSat: payment.faceValueSat,
        // Not `order.nowMs`: the mint may since have taken longer than a lease lasts.
        createdAtMs: clock(),
        sealedProofs,
        outputPlan,
        leaseHolder,
      });
      if (!(await isActiveTreasuryKey(tx, sealer.keyId))) {
        throw new Error('a process with another TREASURY_SECRET uses this database');
      }
      return claimProofs(tx, id, secretHashes);
    });
  }

  /**
   * @param acquireLease resolves with false if the run must not start
   * @param takePermit only for a new purchase, for which no request was sent
   */
  #run(
    id: string,
    acquireLease: (holder: string) => Promise<boolean>,
    takePermit?: () => MintPermit | undefined,
  ): Promise<PurchaseAttemptResult | null> {
    const startRun = async () => {
      const holder = randomUUID();
      const hasLease = await acquireLease(holder);
      return hasLease ? this.#attempt(id, holder, takePermit) : null;
    };
    return this.#runs.getOrInsertComputed(id, () =>
      startRun().finally(() => this.#runs.delete(id)),
    );
  }

  async #attempt(
    id: string,
    holder: string,
    takePermit?: () => MintPermit | undefined,
  ): Promise<PurchaseAttemptResult | null> {
    const openPurchase = await findOpenPurchase(this.#deps.db, id);
    if (openPurchase === null) {
      return null;
    }
    const purchase = { ...openPurchase, holder };
    try {
      return await this.#redeem(purchase, takePermit);
    } catch (error) {
      this.#deps.log[retryLogLevel(error)](
        { event: 'username_purchase_error', err: error, purchase: id },
        'error while processing a username purchase; will retry',
      );
      return this.#scheduleRetry(purchase, 'an error; see the log');
    }
  }

  async #redeem(
    purchase: LeasedPurchase,
    takePermit?: () => MintPermit | undefined,
  ): Promise<PurchaseAttemptResult | null> {
    const context = purchaseSealContext(purchase.id);
    const inputs = (await this.#deps.sealer.open(context, purchase.sealedProofs)) as Proof[];
    const { db, swapContext, clock } = this.#deps;
    const { id, holder, mintUrl, outputPlans } = purchase;
    const swap = {
      id,
      mintUrl,
      inputs,
      outputPlans,
      ...(takePermit && { takePermit }),
      renewLease: () => renewPurchaseLease(db, id, holder, clock()),
      savePlans: (plans: readonly OutputPlan[]) => saveOutputPlans(db, id, holder, plans),
    };
    if (isUndoDue(purchase)) {
      return this.#undo(purchase, swap);
    }
    return this.#applyResult(purchase, await runSwap(swapContext, swap, takePermit !== undefined));
  }

  async #applyResult(
    purchase: LeasedPurchase,
    result: SwapResult,
  ): Promise<PurchaseAttemptResult | null> {
    const { firstRejectedAtMs } = purchase;
    const isRejectionConfirmed =
      firstRejectedAtMs !== null && this.#deps.clock() - firstRejectedAtMs >= MAX_TRANSIT_MS;
    switch (result.outcome) {
      case 'done':
        return this.#complete(purchase, result.proofs, result.expiresAtMs);
      case 'rejected':
        return result.isFinal || isRejectionConfirmed
          ? this.#fail(purchase, result.reason)
          : this.#scheduleRetry(purchase, 'rejected by the mint', { isRejected: true });
      case 'unknown':
        return result.isUnexecuted
          ? this.#fail(purchase, 'mint_unreachable')
          : this.#scheduleRetry(purchase, result.reason, {
              isUnanswered: result.wereInputsUnspent,
            });
    }
  }

  /**
   * Undoes the purchase, unless the mint has executed the swap after all. Sends no further swap, because the mint could
   * execute it after the purchase was undone.
   */
  async #undo(purchase: LeasedPurchase, swap: Swap): Promise<PurchaseAttemptResult | null> {
    const { swapContext, clock } = this.#deps;
    if (clock() - (purchase.lastUnansweredAtMs ?? 0) < MAX_TRANSIT_MS) {
      return this.#scheduleRetry(purchase, 'waiting for the last request to end');
    }
    const result = await checkSwap(swapContext, swap);
    return result === null
      ? this.#fail(purchase, 'no_response')
      : this.#applyResult(purchase, result);
  }

  /** Assigns the name and stores the new proofs. @returns null if another run has taken over */
  async #complete(
    { id, holder, pubkey, name, mintUrl }: LeasedPurchase,
    proofs: readonly Proof[],
    expiresAtMs: number | null,
  ): Promise<PurchaseAttemptResult | null> {
    const { db, sealer, graceMs, clock, log } = this.#deps;
    const sealed = await sealProofs(sealer, mintUrl, proofs, expiresAtMs);
    const nowMs = clock();
    const isCompleted = await transaction(db, async (tx) => {
      if (!(await completePurchase(tx, id, holder, nowMs))) {
        return false;
      }
      await notifyRecipientChange(tx, pubkey);
      if (!(await assignHeldUsername(tx, name, { pubkey, purchaseId: id, nowMs, graceMs }))) {
        throw new Error(`the name of purchase ${id} is no longer held for it`);
      }
      await addTreasuryProofs(tx, sealed);
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
    const { db, clock, log } = this.#deps;
    const isFailed = await transaction(db, async (tx) => {
      const isUpdated = await failPurchase(tx, id, holder, reason, clock());
      if (isUpdated) {
        await releaseHeldUsername(tx, name, id);
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
    { id, holder, attempts: previousAttempts, ...purchase }: LeasedPurchase,
    reason: string,
    { isRejected = false, isUnanswered = false } = {},
  ): Promise<PurchaseAttemptResult> {
    const { db, clock, log } = this.#deps;
    const nowMs = clock();
    const attempts = previousAttempts + 1;
    const delayMs = isRejected
      ? MAX_TRANSIT_MS
      : Math.min(FIRST_RETRY_DELAY_MS * 2 ** previousAttempts, MAX_RETRY_DELAY_MS);
    const nextAttemptAtMs = nowMs + delayMs;
    const { firstRejectedAtMs, firstUnansweredAtMs, lastUnansweredAtMs } = purchase;
    await schedulePurchaseRetry(db, id, holder, {
      reason,
      attempts,
      nextAttemptAtMs,
      firstRejectedAtMs: isRejected ? Math.min(firstRejectedAtMs ?? nowMs, nowMs) : null,
      firstUnansweredAtMs: isUnanswered ? (firstUnansweredAtMs ?? nowMs) : firstUnansweredAtMs,
      lastUnansweredAtMs: isUnanswered ? nowMs : lastUnansweredAtMs,
    });
    // Not every attempt is logged, because a buyer can repeat the request many times.
    if (Number.isInteger(Math.log2(attempts))) {
      const nextAttemptAt = new Date(nextAttemptAtMs);
      log.warn(
        { event: 'username_purchase_pending', purchase: id, reason, attempts, nextAttemptAt },
        'username purchase is still pending; will retry',
      );
    }
    return { outcome: 'pending' };
  }
}

function isUndoDue({ firstUnansweredAtMs, lastUnansweredAtMs }: OpenPurchase): boolean {
  return (
    firstUnansweredAtMs !== null &&
    lastUnansweredAtMs !== null &&
    lastUnansweredAtMs - firstUnansweredAtMs >= UNDO_AFTER_MS
  );
}

function purchaseSealContext(purchaseId: string): string {
  return `purchase ${purchaseId}`;
}
