import { type OutputPlan, type Proof, sumAmounts } from '../mints/ecash.ts';
import type { EcashClient } from '../mints/ecash-client.ts';
import type { KeysetCache } from '../mints/keyset-cache.ts';
import { describeFailure } from '../mints/mint-request.ts';
import type { SwapRejectionReason } from '../mints/swap-rejection.ts';
import {
  computeInputFeeSat,
  computeY,
  deriveOutputSeed,
  deriveOutputs,
  planOutputs,
  selectOutputKeyset,
} from './ecash/proofs.ts';

// Swaps proofs so that a lost response loses no money. The state of the inputs shows whether the mint carried out the
// swap (NUT-07), and the outputs are derived, not random, so that the mint can restore its signatures (NUT-09).

/** A swap of proofs for new ones (NUT-03), as the purchase journal stores it. */
export interface Swap {
  /** Unique: the outputs are derived from it and the treasury secret. */
  id: string;
  mintUrl: string;
  inputs: readonly Proof[];
  /** Every output plan that the mint may have received, newest last. Only the newest is sent. */
  outputPlans: readonly OutputPlan[];
  /** Called before each request. False: another run has taken over, so nothing may be sent. */
  renewLease: () => Promise<boolean>;
}

export type SwapResult =
  | { outcome: 'done'; proofs: Proof[] }
  /** If `isFinal` is false, an earlier request whose response was lost may still reach the mint: check again later. */
  | { outcome: 'rejected'; reason: SwapRejectionReason; isFinal: boolean }
  /** The mint rejected the swap because its keysets or fees differ from those that the newest plan assumes. */
  | { outcome: 'plan_outdated'; isFinal: boolean }
  /** `isUnsent`: the mint has certainly received nothing. */
  | { outcome: 'unknown'; reason: string; isUnsent: boolean };

export interface SwapContext {
  client: EcashClient;
  keysetCache: KeysetCache;
  treasurySecret: string;
}

export const LEASE_LOST_REASON = 'another run has taken over';

const KEYS_UNAVAILABLE_REASON = 'the keys of the mint could not be read';

/**
 * Swaps the proofs, or finishes a swap that was interrupted.
 *
 * @param isNew whether the swap was never sent before
 */
export async function runSwap(
  context: SwapContext,
  swap: Swap,
  isNew: boolean,
): Promise<SwapResult> {
  const earlierResult = isNew ? null : await readEarlierResult(context, swap, false);
  if (earlierResult !== null) {
    return earlierResult;
  }
  // Sending a swap again is safe: the mint carries it out only once.
  const response = await sendSwap(context, swap);
  switch (response.outcome) {
    case 'signed':
      return { outcome: 'done', proofs: response.proofs };
    case 'rejected':
      return interpretRejection(context, swap, response.reason, isNew);
    case 'unsent':
      return { outcome: 'unknown', reason: response.reason, isUnsent: isNew };
    case 'lost':
      return isNew ? runSwap(context, swap, false) : unknownResult(response.reason);
  }
}

type SwapResponse =
  | { outcome: 'signed'; proofs: Proof[] }
  | { outcome: 'rejected'; reason: SwapRejectionReason }
  /** `unsent`: the mint did not receive the request, or rejected it because of a rate limit. */
  | { outcome: 'unsent' | 'lost'; reason: string };

async function sendSwap(
  { client, keysetCache, treasurySecret }: SwapContext,
  { id, mintUrl, inputs, outputPlans, renewLease }: Swap,
): Promise<SwapResponse> {
  const plan = outputPlans.at(-1);
  const keys = plan === undefined ? null : await keysetCache.getKeys(mintUrl, plan.keysetId);
  if (plan === undefined || keys === null) {
    return { outcome: 'unsent', reason: KEYS_UNAVAILABLE_REASON };
  }
  if (!(await renewLease())) {
    return { outcome: 'lost', reason: LEASE_LOST_REASON };
  }
  const outputs = deriveOutputs(deriveOutputSeed(treasurySecret, id, outputPlans.length - 1), plan);
  const response = await client.swap(mintUrl, inputs, outputs.blindedMessages);
  switch (response.outcome) {
    case 'signed': {
      const proofs = outputs.unblind(response.signatures, keys);
      return proofs === null
        ? { outcome: 'lost', reason: 'the mint sent wrong signatures' }
        : { outcome: 'signed', proofs };
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
): Promise<SwapResult> {
  const rejected = { outcome: 'rejected', reason, isFinal } as const;
  switch (reason) {
    case 'keyset_inactive':
    case 'unbalanced':
      return { outcome: 'plan_outdated', isFinal };
    case 'invalid':
      return rejected;
    default:
      // The swap may nevertheless be done or in progress: a proxy may have sent the request twice.
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
  if (!(await swap.renewLease())) {
    return unknownResult(LEASE_LOST_REASON);
  }
  const response = await context.client.checkState(swap.mintUrl, swap.inputs.map(computeY));
  if (response.outcome !== 'found') {
    return unknownResult(describeFailure(response));
  }
  const states = [...response.states.values()];
  if (states.every((state) => state === 'UNSPENT')) {
    return null;
  }
  const restored = await restoreOutputs(context, swap);
  if (restored !== null) {
    return restored;
  }
  if (states.includes('SPENT')) {
    return { outcome: 'rejected', reason: 'spent', isFinal };
  }
  // The inputs are pending in another client's swap, unless a request of this service was lost.
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
    if (!(await renewLease())) {
      return unknownResult(LEASE_LOST_REASON);
    }
    const outputs = deriveOutputs(deriveOutputSeed(treasurySecret, id, index), plan);
    const response = await client.restore(mintUrl, outputs.blindedMessages);
    if (response.outcome !== 'found') {
      return unknownResult(describeFailure(response));
    }
    if (response.restored.length > 0) {
      const signatures = outputs.orderSignatures(response.restored);
      const proofs = signatures === null ? null : outputs.unblind(signatures, keys);
      return proofs === null
        ? unknownResult('the mint restored wrong signatures')
        : { outcome: 'done', proofs };
    }
  }
  return null;
}

function unknownResult(reason: string): SwapResult {
  return { outcome: 'unknown', reason, isUnsent: false };
}

/**
 * Plans the outputs of a swap: the value of the proofs minus the mint's fee (NUT-02).
 *
 * @param shouldRefresh whether to read the mint's keysets again, because it rejected a swap with the cached ones
 * @returns `mint_unreachable` also if the mint has no usable keyset in sat
 */
export async function planSwap(
  keysetCache: KeysetCache,
  mintUrl: string,
  proofs: readonly Proof[],
  shouldRefresh: boolean,
): Promise<
  | { outcome: 'planned'; plan: OutputPlan }
  | { outcome: 'failed'; reason: 'fee_exceeds_value' | 'mint_unreachable' }
> {
  const keysets = await (shouldRefresh
    ? keysetCache.refreshKeysets(mintUrl)
    : keysetCache.getKeysets(mintUrl));
  const keyset = keysets && selectOutputKeyset(keysets);
  const keys = keyset && (await keysetCache.getKeys(mintUrl, keyset.id));
  const ids = new Set(keysets?.map(({ id }) => id));
  if (keysets === null || keys === null || !proofs.every(({ id }) => ids.has(id))) {
    return { outcome: 'failed', reason: 'mint_unreachable' };
  }
  const outputSat = sumAmounts(proofs) - computeInputFeeSat(proofs, keysets);
  return outputSat <= 0
    ? { outcome: 'failed', reason: 'fee_exceeds_value' }
    : { outcome: 'planned', plan: planOutputs(outputSat, keys) };
}
