import type { Clock } from '../clock.ts';
import type { OutputPlan, Proof } from '../mints/ecash.ts';
import type { EcashClient } from '../mints/ecash-client.ts';
import type { KeysetCache } from '../mints/keyset-cache.ts';
import { describeFailure } from '../mints/mint-client.ts';
import type { MintPermit } from '../mints/mint-rate-limiter.ts';
import type { SwapRejectionReason } from '../mints/swap-rejection.ts';
import {
  computeInputFeeSat,
  computeY,
  deriveOutputSeed,
  deriveOutputs,
  getExpiryMs,
  mapInSlices,
  planOutputs,
  selectOutputKeyset,
  sumAmounts,
} from './ecash/proofs.ts';

// Swaps proofs in such a way that a lost response loses no money. The states of the inputs show whether the mint has
// executed the swap (NUT-07). The outputs are derived instead of random, so that the mint can restore its signatures
// on them (NUT-09).

/** A swap of proofs for new ones (NUT-03), as the purchase journal stores it. */
export interface Swap {
  /** Must be unique, because the outputs are derived from it and the treasury secret. */
  id: string;
  mintUrl: string;
  inputs: readonly Proof[];
  /** Every output plan that the mint may have received. The last plan is the newest, and only it is sent. */
  outputPlans: readonly OutputPlan[];
  /** Returns the permit for the first request, once. Further requests wait for their own. */
  takePermit?: () => MintPermit | undefined;
  /** Called before each request. If it resolves with false, another run has taken over, and nothing is sent. */
  renewLease: () => Promise<boolean>;
  /** Stores all output plans. If it resolves with false, another run has taken over. */
  savePlans: (outputPlans: readonly OutputPlan[]) => Promise<boolean>;
}

export type SwapResult =
  /** `expiresAtMs`: when the mint stops accepting the proofs; null if never. */
  | { outcome: 'done'; proofs: Proof[]; expiresAtMs: number | null }
  /** If `isFinal` is false, an earlier request without a response may still reach the mint. Check again later. */
  | { outcome: 'rejected'; reason: SwapRejectionReason; isFinal: boolean }
  /**
   * The swap is neither done nor rejected. `isUnexecuted`: the mint has certainly not executed it so far.
   * `wereInputsUnspent`: the mint reported the inputs as unspent, and the swap sent after that had no result.
   */
  | { outcome: 'unknown'; reason: string; isUnexecuted: boolean; wereInputsUnspent: boolean };

/** The mint rejected the swap because its keysets or fees differ from those in the newest output plan. */
type PlanOutdated = {
  outcome: 'plan_outdated';
  reason: 'keyset_inactive' | 'keyset_expired' | 'unbalanced';
  isFinal: boolean;
};

export interface SwapContext {
  client: EcashClient;
  keysetCache: KeysetCache;
  treasurySecret: string;
  clock: Clock;
}

const LEASE_LOST_REASON = 'another run has taken over';

const KEYS_UNAVAILABLE_REASON = 'the keys of the mint could not be read';

/**
 * Swaps the proofs, or finishes a swap that was interrupted. If the mint has changed its keysets or fees, swaps the
 * proofs with a new output plan.
 *
 * @param isNew whether no request for this swap has been sent
 */
export async function runSwap(
  context: SwapContext,
  swap: Swap,
  isNew: boolean,
): Promise<SwapResult> {
  const { mintUrl, inputs, outputPlans, savePlans } = swap;
  const firstResult = await trySwap(context, swap, isNew);
  if (firstResult.outcome !== 'plan_outdated') {
    return firstResult;
  }
  const areKeysetsRejected = firstResult.reason !== 'unbalanced';
  const planResult = await planSwap(context, mintUrl, inputs, {
    shouldRefresh: true,
    rejectedKeysetIds: areKeysetsRejected ? outputPlans.map(({ keysetId }) => keysetId) : [],
  });
  if (planResult.outcome === 'failed') {
    return planResult.reason === 'mint_unreachable'
      ? unknownResult('the mint does not respond', !firstResult.isFinal)
      : { outcome: 'rejected', reason: 'unbalanced', isFinal: firstResult.isFinal };
  }
  const extendedPlans = [...outputPlans, planResult.plan];
  if (!(await savePlans(extendedPlans))) {
    return unknownResult(LEASE_LOST_REASON);
  }
  const secondResult = await trySwap(context, { ...swap, outputPlans: extendedPlans }, false);
  if (secondResult.outcome !== 'plan_outdated') {
    return secondResult;
  }
  if (secondResult.reason === 'keyset_expired') {
    // The new outputs have another keyset, or one that has not expired: the inputs have.
    return { outcome: 'rejected', reason: 'keyset_expired', isFinal: firstResult.isFinal };
  }
  // The token may be valid: the mint seems to apply other keysets or fees than it lists.
  return firstResult.isFinal
    ? { ...unknownResult('the keysets of the mint changed'), isUnexecuted: true }
    : { outcome: 'rejected', reason: 'other', isFinal: false };
}

/** Sends the swap with the newest output plan, unless the mint has executed it. */
async function trySwap(
  context: SwapContext,
  swap: Swap,
  isNew: boolean,
): Promise<SwapResult | PlanOutdated> {
  const earlierResult = isNew ? null : await readEarlierResult(context, swap, false);
  if (earlierResult !== null) {
    return earlierResult;
  }
  // Sending a swap again is safe, because the mint executes it only once.
  const response = await sendSwap(context, swap);
  switch (response.outcome) {
    case 'signed':
      return doneResult(response.proofs, response.plan);
    case 'rejected':
      return interpretRejection(context, swap, response.reason, isNew);
    case 'unsent':
      return { ...unknownResult(response.reason, !isNew), isUnexecuted: isNew };
    case 'lost':
      return isNew ? trySwap(context, swap, false) : unknownResult(response.reason, true);
  }
}

/**
 * Finds out whether the mint has executed a swap, without sending it again.
 *
 * @returns null if the inputs are unspent and the mint has signed no output
 */
export async function checkSwap(context: SwapContext, swap: Swap): Promise<SwapResult | null> {
  return (await readEarlierResult(context, swap, false)) ?? (await restoreOutputs(context, swap));
}

type SwapResponse =
  | { outcome: 'signed'; proofs: Proof[]; plan: OutputPlan }
  | { outcome: 'rejected'; reason: SwapRejectionReason }
  /** The mint did not receive the request, or rejected it because of a rate limit. */
  | { outcome: 'unsent'; reason: string }
  /** The mint may have received the request. */
  | { outcome: 'lost'; reason: string };

async function sendSwap(
  { client, keysetCache, treasurySecret }: SwapContext,
  { id, mintUrl, inputs, outputPlans, takePermit, renewLease }: Swap,
): Promise<SwapResponse> {
  const plan = outputPlans.at(-1);
  const keys = plan === undefined ? null : await keysetCache.getKeys(mintUrl, plan.keysetId);
  if (plan === undefined || keys === null) {
    return { outcome: 'unsent', reason: KEYS_UNAVAILABLE_REASON };
  }
  const seed = deriveOutputSeed(treasurySecret, id, outputPlans.length - 1);
  const outputs = await deriveOutputs(seed, plan);
  if (!(await renewLease())) {
    return { outcome: 'lost', reason: LEASE_LOST_REASON };
  }
  const response = await client.swap(mintUrl, inputs, outputs.blindedMessages, takePermit?.());
  switch (response.outcome) {
    case 'signed': {
      const proofs = await outputs.unblind(response.signatures, keys);
      return proofs === null
        ? { outcome: 'lost', reason: 'the mint sent wrong signatures' }
        : { outcome: 'signed', proofs, plan };
    }
    case 'rejected':
      return response;
    case 'rate_limited':
      return { outcome: 'unsent', reason: 'rate limited' };
    case 'unavailable':
      return { outcome: response.isUnsent ? 'unsent' : 'lost', reason: response.reason };
  }
}

async function interpretRejection(
  context: SwapContext,
  swap: Swap,
  reason: SwapRejectionReason,
  isFinal: boolean,
): Promise<SwapResult | PlanOutdated> {
  const rejected = { outcome: 'rejected', reason, isFinal } as const;
  switch (reason) {
    case 'keyset_inactive':
    case 'keyset_expired':
    case 'unbalanced':
      return { outcome: 'plan_outdated', reason, isFinal };
    case 'invalid':
      return rejected;
    default:
      // The swap may nevertheless be done or in progress, for example if a proxy sent the request twice.
      return (await readEarlierResult(context, swap, isFinal)) ?? rejected;
  }
}

/**
 * Reads the states of the inputs, and restores the outputs unless all inputs are unspent.
 *
 * @returns null if the inputs are unspent
 */
async function readEarlierResult(
  context: SwapContext,
  swap: Swap,
  isFinal: boolean,
): Promise<SwapResult | null> {
  const ys = await mapInSlices(swap.inputs, computeY);
  if (!(await swap.renewLease())) {
    return unknownResult(LEASE_LOST_REASON);
  }
  const response = await context.client.checkState(swap.mintUrl, ys);
  if (response.outcome !== 'found') {
    return unknownResult(describeFailure(response));
  }
  const states = [...response.states.values()];
  if (states.every((state) => state === 'UNSPENT')) {
    return null;
  }
  const restoredResult = await restoreOutputs(context, swap);
  if (restoredResult !== null) {
    return restoredResult;
  }
  if (states.includes('SPENT')) {
    return { outcome: 'rejected', reason: 'spent', isFinal };
  }
  // The inputs are pending. If `isFinal`, they are pending in another client's swap.
  return isFinal
    ? { outcome: 'rejected', reason: 'pending', isFinal }
    : unknownResult('pending at the mint');
}

/** @returns null if the mint has signed no output of any plan */
async function restoreOutputs(
  { client, keysetCache, treasurySecret }: SwapContext,
  { id, mintUrl, outputPlans, renewLease }: Swap,
): Promise<SwapResult | null> {
  for (const [index, plan] of outputPlans.entries()) {
    const keys = await keysetCache.getKeys(mintUrl, plan.keysetId);
    if (keys === null) {
      return unknownResult(KEYS_UNAVAILABLE_REASON);
    }
    const outputs = await deriveOutputs(deriveOutputSeed(treasurySecret, id, index), plan);
    if (!(await renewLease())) {
      return unknownResult(LEASE_LOST_REASON);
    }
    const response = await client.restore(mintUrl, outputs.blindedMessages);
    if (response.outcome !== 'found') {
      return unknownResult(describeFailure(response));
    }
    if (response.restored.length > 0) {
      const signatures = outputs.orderSignatures(response.restored);
      const proofs = signatures === null ? null : await outputs.unblind(signatures, keys);
      return proofs === null
        ? unknownResult('the mint restored wrong signatures')
        : doneResult(proofs, plan);
    }
  }
  return null;
}

function doneResult(proofs: Proof[], plan: OutputPlan): SwapResult {
  const expiryMs = getExpiryMs(plan);
  return { outcome: 'done', proofs, expiresAtMs: Number.isFinite(expiryMs) ? expiryMs : null };
}

function unknownResult(reason: string, wereInputsUnspent = false) {
  return { outcome: 'unknown' as const, reason, isUnexecuted: false, wereInputsUnspent };
}

/**
 * Plans the outputs of a swap. They are worth the value of the proofs minus the mint's fee (NUT-02).
 *
 * @param options.shouldRefresh whether to request the mint's keysets again, because the mint rejected a swap
 * @param options.rejectedKeysetIds keysets to avoid
 * @returns `mint_unreachable` also if the mint has no usable keyset in sat
 */
export async function planSwap(
  { keysetCache, clock }: SwapContext,
  mintUrl: string,
  proofs: readonly Proof[],
  options: { shouldRefresh?: boolean; rejectedKeysetIds?: readonly string[] } = {},
): Promise<
  | { outcome: 'planned'; plan: OutputPlan }
  | { outcome: 'failed'; reason: 'fee_exceeds_value' | 'mint_unreachable' }
> {
  const keysets = await (options.shouldRefresh
    ? keysetCache.refreshKeysets(mintUrl)
    : keysetCache.getKeysets(mintUrl));
  const keyset = keysets && selectOutputKeyset(keysets, clock(), options.rejectedKeysetIds);
  const keys = keyset && (await keysetCache.getKeys(mintUrl, keyset.id));
  const ids = new Set(keysets?.map(({ id }) => id));
  if (
    keysets === null ||
    keyset === null ||
    keys === null ||
    !proofs.every(({ id }) => ids.has(id))
  ) {
    return { outcome: 'failed', reason: 'mint_unreachable' };
  }
  const outputSat = sumAmounts(proofs) - computeInputFeeSat(proofs, keysets);
  return outputSat <= 0
    ? { outcome: 'failed', reason: 'fee_exceeds_value' }
    : { outcome: 'planned', plan: planOutputs(outputSat, keys, keyset) };
}
