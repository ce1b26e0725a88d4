import { randomUUID } from 'node:crypto';
import { computeBackoffMs } from '../backoff.ts';
import { type Db, tryTransaction } from '../database/transaction.ts';
import { retryLogLevel } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { Proof } from '../mints/ecash.ts';
import type { SwapRejectionReason } from '../mints/ecash-client.ts';
import type { RequestWait } from '../mints/mint-rate-limiter.ts';
import type { Sealer } from '../sealer.ts';
import { hashSecret, sumAmounts } from './ecash/proofs.ts';
import { MAX_TRANSIT_MS, UNDO_AFTER_MS } from './limits.ts';
import {
  acquireDuePurchases,
  claimProofs,
  closePurchase,
  insertPurchase,
  type OpenPurchase,
  recordSwapRequest,
  saveOutputPlans,
  schedulePurchaseRetry,
} from './purchase-store.ts';
import { recordNameChange } from './record-name-change.ts';
import {
  findSwapResult,
  OUTDATED_PLAN_REASONS,
  planSwap,
  restoreOutputs,
  type SwapContext,
  type SwapResult,
  sendSwap,
} from './token-swap.ts';
import { sealProofs } from './treasury.ts';
import { addTreasuryProofs, readActiveTreasuryKeyId } from './treasury-store.ts';
import { assignHeldUsername, holdUsername, releaseHeldUsername } from './username-store.ts';

export interface PurchaseContext extends SwapContext {
  db: Db;
  sealer: Sealer;
  graceMs: number;
  log: Logger;
}

export interface PurchaseOrder {
  pubkey: string;
  name: string;
  priceSat: number;
  mintUrl: string;
  /** The prefix of the buyer's address, which gets a share of the mint's rate limit. */
  addressGroup: string;
  proofs: readonly Proof[];
}

export type PurchaseFailureReason =
  | SwapRejectionReason
  | 'fee_exceeds_value'
  | 'mint_unusable'
  /** For a day, the mint has reported the token as unspent, but has not responded to the swap. */
  | 'no_response';

export type PurchaseResult =
  | { outcome: 'completed' }
  | { outcome: 'failed'; reason: PurchaseFailureReason }
  /** The recovery job will complete or fail the purchase. */
  | { outcome: 'pending' };

/** Another request has the name, or the token pays or paid for another purchase. Nothing was stored. */
type PurchaseConflict = 'name_not_free' | 'token_used';

/**
 * Buys a name: holds it and writes the purchase to the journal, redeems the token, and assigns the name. The recovery
 * job finishes what a crash or a failure of the mint interrupts, so a crash loses neither the name nor the token.
 */
export async function startPurchase(
  context: PurchaseContext,
  order: PurchaseOrder,
): Promise<
  PurchaseResult | { outcome: PurchaseConflict } | { outcome: 'mint_busy'; retryAfterMs: number }
> {
  const { pubkey, name, mintUrl, addressGroup, proofs } = order;
  const planned = await planSwap(context, mintUrl, proofs);
  if (planned.outcome !== 'planned') {
    return { outcome: 'failed', reason: planned.outcome };
  }
  // No name is held while a buyer waits for the mint's rate limit.
  const retryAfterMs = context.client.getSwapWaitMs(mintUrl, addressGroup);
  if (retryAfterMs > 0) {
    return { outcome: 'mint_busy', retryAfterMs };
  }
  const id = randomUUID();
  const purchase: OpenPurchase = {
    id,
    pubkey,
    name,
    mintUrl,
    leaseHolder: randomUUID(),
    sealedProofs: await context.sealer.seal(`purchase ${id}`, proofs),
    outputPlans: [planned.plan],
    attempts: 0,
    firstResentAtMs: null,
    lastUnansweredAtMs: null,
  };
  const conflict = await journalPurchase(context, purchase, order);
  if (conflict !== null) {
    return { outcome: conflict };
  }
  return await retryOnError(context, purchase, async () => {
    const wait = { maxWaitMs: 0, addressGroup };
    // Nothing was sent yet, so a token that is not unspent was used elsewhere, and cannot hold the name.
    const earlierResult = await findSwapResult(context, { ...purchase, inputs: proofs }, wait);
    if (earlierResult !== null) {
      const reason = earlierResult.outcome === 'rejected' ? earlierResult.reason : 'mint_unusable';
      return failPurchaseAndFreeName(context, purchase, reason);
    }
    const result = await redeemToken(context, purchase, proofs, wait);
    return result.outcome === 'not_processed'
      ? failPurchaseAndFreeName(context, purchase, 'mint_unusable')
      : applySwapResult(context, purchase, result, { isRejectionFinal: true });
  });
}

/** Continues open purchases that are due. Each needs its lease, so that one process at a time works on it. */
export async function resumeDuePurchases(context: PurchaseContext): Promise<void> {
  const due = await acquireDuePurchases(context.db, context.clock());
  await Promise.all(
    due.map((purchase) => retryOnError(context, purchase, () => resumePurchase(context, purchase))),
  );
}

async function journalPurchase(
  { db, sealer, clock }: PurchaseContext,
  purchase: OpenPurchase,
  { priceSat, proofs }: PurchaseOrder,
): Promise<PurchaseConflict | null> {
  let conflict: PurchaseConflict | null = null;
  const { id, name, pubkey } = purchase;
  const nowMs = clock();
  await tryTransaction(db, async (tx) => {
    if (!(await holdUsername(tx, name, { pubkey, purchaseId: id, nowMs }))) {
      conflict = 'name_not_free';
      return false;
    }
    await insertPurchase(tx, purchase, { priceSat, paidSat: sumAmounts(proofs), nowMs });
    if ((await readActiveTreasuryKeyId(tx)) !== sealer.keyId) {
      throw new Error('a process with another TREASURY_SECRET uses this database');
    }
    if (!(await claimProofs(tx, id, proofs.map(hashSecret)))) {
      conflict = 'token_used';
      return false;
    }
    return true;
  });
  return conflict;
}

/** Asks the mint whether it has executed the swap. If not, sends it again or, after a day, undoes the purchase. */
async function resumePurchase(
  context: PurchaseContext,
  purchase: OpenPurchase,
): Promise<PurchaseResult> {
  const { db, sealer, clock } = context;
  const { id, sealedProofs, firstResentAtMs, lastUnansweredAtMs } = purchase;
  const inputs = (await sealer.open(`purchase ${id}`, sealedProofs)) as Proof[];
  // An earlier request in transit could still spend the token, whatever the mint answers now.
  const isInTransit = lastUnansweredAtMs !== null && clock() - lastUnansweredAtMs < MAX_TRANSIT_MS;
  const applyResult = (result: SwapResult) =>
    applySwapResult(context, purchase, result, { isRejectionFinal: !isInTransit });
  const earlierResult = await findSwapResult(context, { ...purchase, inputs });
  if (earlierResult !== null) {
    return applyResult(earlierResult);
  }
  // Counts up to the last request, because this service may have been down since then.
  const isUndoDue =
    firstResentAtMs !== null && (lastUnansweredAtMs ?? 0) - firstResentAtMs >= UNDO_AFTER_MS;
  if (!isUndoDue) {
    return (await recordSwapRequest(db, purchase, clock()))
      ? applyResult(await redeemToken(context, purchase, inputs))
      : PENDING;
  }
  // No swap is sent any more, because the mint could execute it after the purchase was undone.
  if (isInTransit) {
    return scheduleRetry(context, purchase, 'waiting for the last request to end');
  }
  const restoredResult = await restoreOutputs(context, { ...purchase, inputs });
  return restoredResult === null
    ? failPurchaseAndFreeName(context, purchase, 'no_response')
    : applyResult(restoredResult);
}

/** Swaps the token. If the mint has changed its keysets or fees, swaps it again with a new output plan. */
async function redeemToken(
  context: PurchaseContext,
  purchase: OpenPurchase,
  inputs: readonly Proof[],
  wait: RequestWait = {},
): Promise<SwapResult> {
  const { db, clock } = context;
  const result = await sendSwap(context, { ...purchase, inputs }, wait);
  if (result.outcome !== 'rejected' || !OUTDATED_PLAN_REASONS.includes(result.reason)) {
    return result;
  }
  const planned = await planSwap(context, purchase.mintUrl, inputs);
  if (planned.outcome === 'fee_exceeds_value') {
    return result;
  }
  if (planned.outcome === 'mint_unusable') {
    return { outcome: 'unknown', reason: 'the mint does not respond' };
  }
  const outputPlans = [...purchase.outputPlans, planned.plan];
  return (await saveOutputPlans(db, purchase, outputPlans, clock()))
    ? sendSwap(context, { ...purchase, inputs, outputPlans }, wait)
    : { outcome: 'unknown', reason: 'another run has taken over' };
}

const PENDING = { outcome: 'pending' } as const;

/** @param options.isRejectionFinal false if an earlier request can still reach the mint and spend the token */
async function applySwapResult(
  context: PurchaseContext,
  purchase: OpenPurchase,
  result: SwapResult,
  { isRejectionFinal }: { isRejectionFinal: boolean },
): Promise<PurchaseResult> {
  switch (result.outcome) {
    case 'done':
      return completePurchaseAndAssignName(context, purchase, result);
    case 'rejected':
      // A request of this purchase may be the cause, for example because a proxy has sent the swap twice.
      if (result.reason === 'pending') {
        return scheduleRetry(context, purchase, 'pending at the mint');
      }
      return isRejectionFinal
        ? failPurchaseAndFreeName(context, purchase, result.reason)
        : scheduleRetry(context, purchase, 'rejected by the mint', { isAnswered: true });
    case 'not_processed':
    case 'unknown':
      return scheduleRetry(context, purchase, result.reason);
  }
}

/** Schedules a retry after an error, which must not end a purchase: the mint may have redeemed the token. */
async function retryOnError(
  context: PurchaseContext,
  purchase: OpenPurchase,
  run: () => Promise<PurchaseResult>,
): Promise<PurchaseResult> {
  try {
    return await run();
  } catch (error) {
    context.log[retryLogLevel(error)](
      { event: 'username_purchase_error', err: error, purchase: purchase.id },
      'error while processing a username purchase; will retry',
    );
    return scheduleRetry(context, purchase, 'an error; see the log');
  }
}

async function completePurchaseAndAssignName(
  { db, sealer, graceMs, clock, log }: PurchaseContext,
  purchase: OpenPurchase,
  { proofs, expiresAtMs }: Extract<SwapResult, { outcome: 'done' }>,
): Promise<PurchaseResult> {
  const { id, pubkey, name, mintUrl } = purchase;
  const sealed = await sealProofs(sealer, mintUrl, proofs, expiresAtMs);
  const nowMs = clock();
  const isCompleted = await tryTransaction(db, async (tx) => {
    if (!(await closePurchase(tx, purchase, { failureReason: null, nowMs }))) {
      return false;
    }
    const event = { pubkey, action: 'buy name', atMs: nowMs };
    const isAssigned = await recordNameChange(tx, event, () =>
      assignHeldUsername(tx, name, { pubkey, purchaseId: id, nowMs, graceMs }),
    );
    if (!isAssigned) {
      throw new Error(`the name of purchase ${id} is no longer held for it`);
    }
    await addTreasuryProofs(tx, sealed);
    return true;
  });
  if (!isCompleted) {
    return PENDING;
  }
  log.info({ event: 'username_sold', purchase: id, name, pubkey }, 'username sold');
  return { outcome: 'completed' };
}

async function failPurchaseAndFreeName(
  { db, clock, log }: PurchaseContext,
  purchase: OpenPurchase,
  reason: PurchaseFailureReason,
): Promise<PurchaseResult> {
  const { id, name, pubkey } = purchase;
  const isFailed = await tryTransaction(db, async (tx) => {
    const isClosed = await closePurchase(tx, purchase, { failureReason: reason, nowMs: clock() });
    await releaseHeldUsername(tx, name, id);
    return isClosed;
  });
  if (!isFailed) {
    return PENDING;
  }
  log.info(
    { event: 'username_purchase_failed', purchase: id, name, pubkey, reason },
    'username purchase failed; the name is free again',
  );
  return { outcome: 'failed', reason };
}

/** @param options.isAnswered whether the mint has answered this run's request: only earlier ones may be in transit */
async function scheduleRetry(
  { db, clock, log }: PurchaseContext,
  purchase: OpenPurchase,
  reason: string,
  { isAnswered = false } = {},
): Promise<PurchaseResult> {
  const { id } = purchase;
  const attempts = purchase.attempts + 1;
  // At most a minute, because a buyer may wait for the name.
  const backoffMs = computeBackoffMs(attempts, { initialMs: 2_000, maxMs: 60_000 });
  // After MAX_TRANSIT_MS, no earlier request is in transit, so the next rejection is final.
  const nextAttemptAtMs = clock() + (isAnswered ? MAX_TRANSIT_MS : backoffMs);
  await schedulePurchaseRetry(db, purchase, { reason, attempts, nextAttemptAtMs, isAnswered });
  // Logs attempts 1, 2, 4, 8 and so on: a mint may be down for days.
  if (Number.isInteger(Math.log2(attempts))) {
    const nextAttemptAt = new Date(nextAttemptAtMs);
    log.warn(
      { event: 'username_purchase_pending', purchase: id, reason, attempts, nextAttemptAt },
      'username purchase is still pending; will retry',
    );
  }
  return PENDING;
}
