import { chooseExactly } from '../domain/choose-proofs.ts';
import { type Keyset, type OutputPlan, type Proof, sumOfAmounts } from '../domain/ecash.ts';
import { chooseKeyset, planOutputs } from '../ecash/outputs.ts';
import { inputFeeSat } from '../ecash/proofs.ts';
import type { KeysetCache } from '../mint/keyset-cache.ts';

/** What proofs can be swapped for. */
export type PlannedOutputs =
  | { outcome: 'planned'; plan: OutputPlan }
  /** After the mint's fee (NUT-02) they are worth less than needed, or nothing. */
  | { outcome: 'short' }
  /** The mint does not say what is needed to plan, or has no usable keyset in sat. */
  | { outcome: 'unavailable' };

interface PlanOptions {
  /** Some of the outputs must make up exactly this amount; null if all belong together. */
  exactSat?: number | null;
  /** Whether to read the mint's keysets again, as after it refused to sign with one. */
  isFresh?: boolean;
}

/** Decides which outputs to request in a swap: all that the proofs are worth, less the mint's fee. */
export class PlanOutputs {
  readonly #keysets: Pick<KeysetCache, 'keysets' | 'refresh' | 'keys'>;

  constructor(keysets: Pick<KeysetCache, 'keysets' | 'refresh' | 'keys'>) {
    this.#keysets = keysets;
  }

  async plan(
    mintUrl: string,
    proofs: readonly Proof[],
    { exactSat = null, isFresh = false }: PlanOptions = {},
  ): Promise<PlannedOutputs> {
    const keysets = await (isFresh
      ? this.#keysets.refresh(mintUrl)
      : this.#keysets.keysets(mintUrl));
    const keyset = keysets === null ? null : chooseKeyset(keysets);
    const keys = keyset === null ? null : await this.#keysets.keys(mintUrl, keyset.id);
    if (keysets === null || keys === null || !areKnown(proofs, keysets)) {
      return { outcome: 'unavailable' };
    }
    const worthSat = sumOfAmounts(proofs) - inputFeeSat(proofs, keysets);
    const partsSat = exactSat === null ? [worthSat] : [exactSat, worthSat - exactSat];
    if (worthSat <= 0 || partsSat.some((sat) => sat < 0)) {
      return { outcome: 'short' };
    }
    // Sorted, so that the mint cannot tell the parts from each other.
    const amounts = partsSat
      .filter((sat) => sat > 0)
      .flatMap((sat) => planOutputs(sat, keys).amounts)
      .sort((a, b) => a - b);
    const isSeparable =
      exactSat === null ||
      chooseExactly(
        amounts.map((amount) => ({ amount })),
        exactSat,
      ) !== null;
    return isSeparable
      ? { outcome: 'planned', plan: { keysetId: keys.id, amounts } }
      : { outcome: 'unavailable' };
  }
}

/** Whether the keyset of every proof is listed, so that the fee is known. */
export function areKnown(proofs: readonly Proof[], keysets: readonly Keyset[]): boolean {
  const ids = new Set(keysets.map(({ id }) => id));
  return proofs.every(({ id }) => ids.has(id));
}
