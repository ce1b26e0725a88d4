import type { Clock } from '../clock.ts';
import type { OutputPlan, Proof } from '../mints/ecash.ts';
import type { EcashClient, SwapOptions } from '../mints/ecash-client.ts';
import { describeFailure } from '../mints/mint-client.ts';
import type { SwapRejectionReason } from '../mints/swap-rejection.ts';
import type { KeysetCache } from './ecash/keyset-cache.ts';
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

// A token is redeemed by a swap (NUT-03) in such a way that a lost response loses no money. The states of the inputs
// show whether the mint has executed the swap (NUT-07). The outputs are derived instead of random, so that the mint can
// restore its signatures on them (NUT-09).

export interface SwapContext {
  client: EcashClient;
  keysetCache: KeysetCache;
  treasurySecret: string;
  clock: Clock;
}

export interface Swap {
  /** Must be unique, because the outputs are derived from it and the treasury secret. */
  id: string;
  mintUrl: string;
  inputs: readonly Proof[];
  /** Every output plan that the mint may have received. The last plan is the newest, and only it is sent. */
  outputPlans: readonly OutputPlan[];
}

export type SwapResult =
  /** `expiresAtMs`: when the mint stops accepting the proofs; null if never. */
  | { outcome: 'done'; proofs: Proof[]; expiresAtMs: number | null }
  /** An earlier request without a response may nevertheless reach the mint and succeed. */
  | { outcome: 'rejected'; reason: SwapRejectionReason }
  /** Neither done nor rejected. `wasSent`: the mint may have received the request of this call. */
  | { outcome: 'unknown'; reason: string; wasSent: boolean };

/** Sends the swap with the newest output plan. Sending it again is safe: the mint executes it only once. */
export async function sendSwap(
  context: SwapContext,
  swap: Swap,
  options: SwapOptions = {},
): Promise<SwapResult> {
  const { client, keysetCache } = context;
  const { mintUrl, inputs, outputPlans } = swap;
  const plan = outputPlans.at(-1) as OutputPlan;
  const keys = await keysetCache.getKeys(mintUrl, plan.keysetId);
  if (keys === null) {
    return unknownResult(KEYS_UNAVAILABLE);
  }
  const outputs = await derivePlannedOutputs(context, swap, outputPlans.length - 1);
  const response = await client.swap(mintUrl, inputs, outputs.blindedMessages, options);
  switch (response.outcome) {
    case 'signed': {
      const proofs = await outputs.unblind(response.signatures, keys);
      return proofs === null
        ? { ...unknownResult('the mint sent wrong signatures'), wasSent: true }
        : doneResult(proofs, plan);
    }
    case 'rejected':
      return explainRejection(context, swap, response.reason);
    case 'rate_limited':
      return unknownResult(describeFailure(response));
    case 'unavailable':
      return { ...unknownResult(describeFailure(response)), wasSent: !response.isUnsent };
  }
}

/** Finds out whether the mint has executed a swap, without sending it. Returns null if all inputs are unspent. */
export async function findSwapResult(context: SwapContext, swap: Swap): Promise<SwapResult | null> {
  const ys = await mapInSlices(swap.inputs, computeY);
  const response = await context.client.checkState(swap.mintUrl, ys);
  if (response.outcome !== 'found') {
    return unknownResult(describeFailure(response));
  }
  const states = [...response.states.values()];
  if (states.every((state) => state === 'UNSPENT')) {
    return null;
  }
  const restoredResult = await restoreOutputs(context, swap);
  const reason = states.includes('SPENT') ? 'spent' : 'pending';
  return restoredResult ?? { outcome: 'rejected', reason };
}

/** @returns null if the mint has signed no output of any plan */
export async function restoreOutputs(context: SwapContext, swap: Swap): Promise<SwapResult | null> {
  const { client, keysetCache } = context;
  for (const [index, plan] of swap.outputPlans.entries()) {
    const keys = await keysetCache.getKeys(swap.mintUrl, plan.keysetId);
    if (keys === null) {
      return unknownResult(KEYS_UNAVAILABLE);
    }
    const outputs = await derivePlannedOutputs(context, swap, index);
    const response = await client.restore(swap.mintUrl, outputs.blindedMessages);
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
): Promise<OutputPlan | 'fee_exceeds_value' | 'mint_unreachable'> {
  const keysets = await (options.shouldRefresh
    ? keysetCache.refreshKeysets(mintUrl)
    : keysetCache.getKeysets(mintUrl));
  const keyset = keysets && selectOutputKeyset(keysets, clock(), options.rejectedKeysetIds);
  const keys = keyset && (await keysetCache.getKeys(mintUrl, keyset.id));
  const ids = new Set(keysets?.map(({ id }) => id));
  if (!keysets || !keyset || !keys || !proofs.every(({ id }) => ids.has(id))) {
    return 'mint_unreachable';
  }
  const outputSat = sumAmounts(proofs) - computeInputFeeSat(proofs, keysets);
  return outputSat <= 0 ? 'fee_exceeds_value' : planOutputs(outputSat, keys, keyset);
}

/** A rejected swap may nevertheless be done, for example if a proxy sent the request twice. */
async function explainRejection(
  context: SwapContext,
  swap: Swap,
  reason: SwapRejectionReason,
): Promise<SwapResult> {
  const rejected: SwapResult = { outcome: 'rejected', reason };
  switch (reason) {
    case 'keyset_inactive':
    case 'keyset_expired':
    case 'unbalanced':
    case 'invalid':
      return rejected;
    case 'spent':
    case 'pending':
    case 'outputs_signed':
    case 'other': {
      const result = (await findSwapResult(context, swap)) ?? rejected;
      return result.outcome === 'unknown' ? { ...result, wasSent: true } : result;
    }
  }
}

function derivePlannedOutputs({ treasurySecret }: SwapContext, swap: Swap, planIndex: number) {
  const seed = deriveOutputSeed(treasurySecret, swap.id, planIndex);
  return deriveOutputs(seed, swap.outputPlans[planIndex] as OutputPlan);
}

const KEYS_UNAVAILABLE = 'the keys of the mint could not be read';

function doneResult(proofs: Proof[], plan: OutputPlan): SwapResult {
  const expiryMs = getExpiryMs(plan);
  return { outcome: 'done', proofs, expiresAtMs: Number.isFinite(expiryMs) ? expiryMs : null };
}

function unknownResult(reason: string) {
  return { outcome: 'unknown' as const, reason, wasSent: false };
}
