import { type OutputPlan, type Proof, sumOfAmounts } from '../mints/ecash.ts';
import { chooseKeyset, planOutputs } from './ecash/outputs.ts';
import { inputFeeSat } from './ecash/proofs.ts';
import type { KeysetCache } from '../mints/keyset-cache.ts';

/** What proofs can be swapped for. */
export type PlannedSwap =
  | { outcome: 'planned'; plan: OutputPlan }
  /** They are worth nothing after the mint's fee (NUT-02). */
  | { outcome: 'short' }
  /** The mint does not provide what is needed to plan, or has no usable keyset in sat. */
  | { outcome: 'unavailable' };

/**
 * Decides which outputs to request in a swap: all that the proofs are worth, less the mint's fee.
 *
 * @param options.isFresh whether to read the mint's keysets again, as after it refused to sign with one
 */
export async function planSwap(
  cache: Pick<KeysetCache, 'keysets' | 'refresh' | 'keys'>,
  mintUrl: string,
  proofs: readonly Proof[],
  { isFresh = false }: { isFresh?: boolean } = {},
): Promise<PlannedSwap> {
  const keysets = await (isFresh ? cache.refresh(mintUrl) : cache.keysets(mintUrl));
  const keyset = keysets === null ? null : chooseKeyset(keysets);
  const keys = keyset === null ? null : await cache.keys(mintUrl, keyset.id);
  const ids = new Set(keysets?.map(({ id }) => id));
  if (keysets === null || keys === null || !proofs.every(({ id }) => ids.has(id))) {
    return { outcome: 'unavailable' };
  }
  const worthSat = sumOfAmounts(proofs) - inputFeeSat(proofs, keysets);
  return worthSat <= 0
    ? { outcome: 'short' }
    : { outcome: 'planned', plan: planOutputs(worthSat, keys) };
}
