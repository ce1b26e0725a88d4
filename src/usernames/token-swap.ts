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

// Redeems a token by a swap (NUT-03), and loses no money if the response is lost: the states of the inputs show whether
// the mint has executed the swap (NUT-07), and the outputs can be derived again, so that the mint can restore its
// signatures on them (NUT-09).

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
  /** Every output plan that the mint may have received. Only the newest, which is the last, is sent. */
  outputPlans: readonly OutputPlan[];
}

export type SwapResult =
  /** `expiresAtMs`: null if the proofs never expire. */
  | { outcome: 'done'; proofs: Proof[]; expiresAtMs: number | null }
  /** The mint may still execute an earlier request that has no response. */
  | { outcome: 'rejected'; reason: SwapRejectionReason }
  /** The mint has not processed this request. */
  | { outcome: 'not_processed'; reason: string }
  /** The mint may have executed the swap. */
  | { outcome: 'unknown'; reason: string };

/** The mint has changed its keysets or fees since the swap was planned. */
export const OUTDATED_PLAN_REASONS: readonly SwapRejectionReason[] = [
  'keyset_inactive',
  'keyset_expired',
  'unbalanced',
];

/** Plans outputs that are worth the proofs minus the mint's fee. */
export async function planSwap(
  { keysetCache, clock }: SwapContext,
  mintUrl: string,
  proofs: readonly Proof[],
) {
  const keysets = await keysetCache.getKeysets(mintUrl);
  const isListed = ({ id }: Proof) => keysets?.some((keyset) => keyset.id === id);
  if (keysets === null || !proofs.every(isListed)) {
    return { outcome: 'mint_unusable' } as const;
  }
  const outputKeyset = selectOutputKeyset(keysets, clock());
  const keys = outputKeyset && (await keysetCache.getKeys(mintUrl, outputKeyset.id));
  if (outputKeyset === null || keys === null) {
    return { outcome: 'mint_unusable' } as const;
  }
  const outputSat = sumAmounts(proofs) - computeInputFeeSat(proofs, keysets);
  if (outputSat <= 0) {
    return { outcome: 'fee_exceeds_value' } as const;
  }
  return { outcome: 'planned', plan: planOutputs(outputSat, keys, outputKeyset) } as const;
}

/** Sends the swap with the newest output plan. Sending it again is safe: the mint executes it only once. */
export async function sendSwap(
  context: SwapContext,
  swap: Swap,
  wait: RequestWait = {},
): Promise<SwapResult> {
  const { client, keysetCache, treasurySecret } = context;
  const { mintUrl, inputs, outputPlans } = swap;
  const plan = outputPlans.at(-1) as OutputPlan;
  const keys = await keysetCache.getKeys(mintUrl, plan.keysetId);
  if (keys === null) {
    return { outcome: 'not_processed', reason: KEYS_UNAVAILABLE };
  }
  const outputs = await deriveOutputs(treasurySecret, swap, outputPlans.length - 1);
  const response = await client.swap(mintUrl, inputs, outputs.blindedMessages, wait);
  switch (response.outcome) {
    case 'signed': {
      const proofs = await outputs.unblind(response.signatures, keys);
      return toSwapResult(proofs, plan, 'the mint sent wrong signatures');
    }
    case 'rejected':
      // The mint never signs an invalid input. Otherwise a proxy may have sent the swap twice (ADR 10).
      return response.reason === 'invalid'
        ? response
        : ((await findSwapResult(context, swap)) ?? response);
    case 'rate_limited': {
      const rejection = { outcome: 'not_processed', reason: describeFailure(response) } as const;
      return (await findSwapResult(context, swap)) ?? rejection;
    }
    case 'unavailable': {
      const outcome = response.isUnsent ? 'not_processed' : 'unknown';
      return { outcome, reason: describeFailure(response) };
    }
  }
}

/** Finds out whether the mint has executed a swap, without sending it. Returns null if all inputs are unspent. */
export async function findSwapResult(
  context: SwapContext,
  swap: Swap,
  wait: RequestWait = {},
): Promise<SwapResult | null> {
  const ys = await mapInSlices(swap.inputs, computeY);
  const response = await context.client.checkState(swap.mintUrl, ys, wait);
  if (response.outcome !== 'found') {
    return { outcome: 'unknown', reason: describeFailure(response) };
  }
  const states = [...response.states.values()];
  if (states.every((state) => state === 'UNSPENT')) {
    return null;
  }
  const reason = states.includes('SPENT') ? 'spent' : 'pending';
  return (await restoreOutputs(context, swap)) ?? { outcome: 'rejected', reason };
}

/** Completes a swap with the signatures that the mint restores. Returns null if it has signed no output of any plan. */
export async function restoreOutputs(
  { client, keysetCache, treasurySecret }: SwapContext,
  swap: Swap,
): Promise<SwapResult | null> {
  for (const [index, plan] of swap.outputPlans.entries()) {
    const keys = await keysetCache.getKeys(swap.mintUrl, plan.keysetId);
    if (keys === null) {
      return { outcome: 'unknown', reason: KEYS_UNAVAILABLE };
    }
    const outputs = await deriveOutputs(treasurySecret, swap, index);
    const response = await client.restore(swap.mintUrl, outputs.blindedMessages);
    if (response.outcome !== 'found') {
      return { outcome: 'unknown', reason: describeFailure(response) };
    }
    if (response.restored.length > 0) {
      const signatureByB_ = new Map(response.restored.map(({ B_, signature }) => [B_, signature]));
      const signatures = outputs.blindedMessages.flatMap(({ B_ }) => signatureByB_.get(B_) ?? []);
      // `unblind` returns null unless all signatures are there.
      const proofs = await outputs.unblind(signatures, keys);
      return toSwapResult(proofs, plan, 'the mint restored wrong signatures');
    }
  }
  return null;
}

const KEYS_UNAVAILABLE = 'the keys of the mint could not be read';

function toSwapResult(
  proofs: Proof[] | null,
  { finalExpiry }: OutputPlan,
  failureReason: string,
): SwapResult {
  return proofs === null
    ? { outcome: 'unknown', reason: failureReason }
    : { outcome: 'done', proofs, expiresAtMs: finalExpiry ? finalExpiry * 1000 : null };
}
