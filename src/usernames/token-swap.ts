import type { Clock } from '../clock.ts';
import type { OutputPlan, Proof } from '../mints/ecash.ts';
import type { EcashClient, SwapRejectionReason } from '../mints/ecash-client.ts';
import { describeFailure } from '../mints/mint-client.ts';
import type { RequestWait } from '../mints/mint-rate-limiter.ts';
import type { KeysetCache } from './ecash/keyset-cache.ts';
import {
  computeInputFeeSat,
  computeY,
  deriveOutputs,
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
  /** `expiresAtMs`: null if the proofs never expire. */
  | { outcome: 'done'; proofs: Proof[]; expiresAtMs: number | null }
  /** An earlier request without a response may nevertheless reach the mint and succeed. */
  | { outcome: 'rejected'; reason: SwapRejectionReason }
  /** Neither done nor rejected. `wasSent`: the mint may have received the swap, so it may be done. */
  | { outcome: 'unknown'; reason: string; wasSent: boolean };

/** The mint has changed its keysets or fees. */
export const OUTDATED_PLAN_REASONS: readonly SwapRejectionReason[] = [
  'keyset_inactive',
  'keyset_expired',
  'unbalanced',
];

/** Sends the swap with the newest output plan. Sending it again is safe: the mint executes it only once. */
export async function sendSwap(
  context: SwapContext,
  swap: Swap,
  options: RequestWait = {},
): Promise<SwapResult> {
  const { client, keysetCache, treasurySecret } = context;
  const { mintUrl, inputs, outputPlans } = swap;
  const plan = outputPlans.at(-1) as OutputPlan;
  const keys = await keysetCache.getKeys(mintUrl, plan.keysetId);
  if (keys === null) {
    return KEYS_UNAVAILABLE;
  }
  const outputs = await deriveOutputs(treasurySecret, swap, outputPlans.length - 1);
  const response = await client.swap(mintUrl, inputs, outputs.blindedMessages, options);
  switch (response.outcome) {
    case 'signed': {
      const proofs = await outputs.unblind(response.signatures, keys);
      return toResult(proofs, plan, 'the mint sent wrong signatures');
    }
    case 'rejected':
      return confirmRejection(context, swap, response.reason);
    case 'rate_limited':
      return unknownResult(describeFailure(response), false);
    case 'unavailable':
      return unknownResult(describeFailure(response), !response.isUnsent);
  }
}

/** A rejected swap may nevertheless be done, for example if a proxy sent the request twice. */
async function confirmRejection(
  context: SwapContext,
  swap: Swap,
  reason: SwapRejectionReason,
): Promise<SwapResult> {
  if (reason === 'invalid' || OUTDATED_PLAN_REASONS.includes(reason)) {
    return { outcome: 'rejected', reason };
  }
  const result = (await findSwapResult(context, swap)) ?? { outcome: 'rejected', reason };
  // The look-up sends no swap, but the caller has sent one.
  return result.outcome === 'unknown' ? { ...result, wasSent: true } : result;
}

/** Finds out whether the mint has executed a swap, without sending it. Returns null if all inputs are unspent. */
export async function findSwapResult(context: SwapContext, swap: Swap): Promise<SwapResult | null> {
  const ys = await mapInSlices(swap.inputs, computeY);
  const response = await context.client.checkState(swap.mintUrl, ys);
  if (response.outcome !== 'found') {
    return unknownResult(describeFailure(response), false);
  }
  const states = [...response.states.values()];
  if (states.every((state) => state === 'UNSPENT')) {
    return null;
  }
  const reason = states.includes('SPENT') ? 'spent' : 'pending';
  return (await restoreOutputs(context, swap)) ?? { outcome: 'rejected', reason };
}

/** @returns null if the mint has signed no output of any plan */
export async function restoreOutputs(
  { client, keysetCache, treasurySecret }: SwapContext,
  swap: Swap,
): Promise<SwapResult | null> {
  for (const [index, plan] of swap.outputPlans.entries()) {
    const keys = await keysetCache.getKeys(swap.mintUrl, plan.keysetId);
    if (keys === null) {
      return KEYS_UNAVAILABLE;
    }
    const outputs = await deriveOutputs(treasurySecret, swap, index);
    const response = await client.restore(swap.mintUrl, outputs.blindedMessages);
    if (response.outcome !== 'found') {
      return unknownResult(describeFailure(response), false);
    }
    if (response.restored.length > 0) {
      const byOutput = new Map(response.restored.map(({ B_, signature }) => [B_, signature]));
      const signatures = outputs.blindedMessages.flatMap(({ B_ }) => byOutput.get(B_) ?? []);
      // `unblind` returns null unless all signatures are there.
      const proofs = await outputs.unblind(signatures, keys);
      return toResult(proofs, plan, 'the mint restored wrong signatures');
    }
  }
  return null;
}

/** Plans outputs that are worth the proofs minus the mint's fee. `mint_unusable`: no response, or no usable keyset. */
export async function planSwap(
  { keysetCache, clock }: SwapContext,
  mintUrl: string,
  proofs: readonly Proof[],
  shouldRefresh = false,
): Promise<OutputPlan | 'fee_exceeds_value' | 'mint_unusable'> {
  const keysets = await keysetCache.getKeysets(mintUrl, shouldRefresh);
  const keyset = keysets && selectOutputKeyset(keysets, clock());
  const keys = keyset && (await keysetCache.getKeys(mintUrl, keyset.id));
  const ids = new Set(keysets?.map(({ id }) => id));
  if (!keysets || !keyset || !keys || !proofs.every(({ id }) => ids.has(id))) {
    return 'mint_unusable';
  }
  const outputSat = sumAmounts(proofs) - computeInputFeeSat(proofs, keysets);
  return outputSat <= 0 ? 'fee_exceeds_value' : planOutputs(outputSat, keys, keyset);
}

const KEYS_UNAVAILABLE = unknownResult('the keys of the mint could not be read', false);

function toResult(
  proofs: Proof[] | null,
  { finalExpiry }: OutputPlan,
  failureReason: string,
): SwapResult {
  // Signatures show that the mint has received the swap, even if they were restored and no swap was sent now.
  return proofs === null
    ? unknownResult(failureReason, true)
    : { outcome: 'done', proofs, expiresAtMs: finalExpiry ? finalExpiry * 1000 : null };
}

function unknownResult(reason: string, wasSent: boolean): SwapResult {
  return { outcome: 'unknown', reason, wasSent };
}
