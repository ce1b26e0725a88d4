import { type Keyset, type OutputPlan, type Proof, sumOfAmounts } from '../domain/ecash.ts';
import { chooseKeyset, planOutputs } from '../ecash/outputs.ts';
import { inputFeeSat } from '../ecash/proofs.ts';
import type { KeysetCache } from '../mint/keyset-cache.ts';

/** What proofs can be swapped for. */
export type PlannedOutputs =
  | { outcome: 'planned'; plan: OutputPlan }
  /** The mint's fee for them is all that they are worth (NUT-02). */
  | { outcome: 'worthless' }
  /** The mint does not tell what is needed to know it, or signs nothing in sat. */
  | { outcome: 'unavailable' };

/** Decides what to ask a mint for in a swap: all that the proofs are worth, less its fee. */
export class PlanOutputs {
  readonly #keysets: Pick<KeysetCache, 'keysets' | 'refresh' | 'keys'>;

  constructor(keysets: Pick<KeysetCache, 'keysets' | 'refresh' | 'keys'>) {
    this.#keysets = keysets;
  }

  /** By what is known of the mint's keysets. */
  async for(mintUrl: string, proofs: readonly Proof[]): Promise<PlannedOutputs> {
    return this.#plan(mintUrl, proofs, await this.#keysets.keysets(mintUrl));
  }

  /** By what the mint says now, as after it refused to sign with a keyset. */
  async afresh(mintUrl: string, proofs: readonly Proof[]): Promise<PlannedOutputs> {
    return this.#plan(mintUrl, proofs, await this.#keysets.refresh(mintUrl));
  }

  async #plan(
    mintUrl: string,
    proofs: readonly Proof[],
    keysets: readonly Keyset[] | null,
  ): Promise<PlannedOutputs> {
    const keyset = keysets === null ? null : chooseKeyset(keysets);
    const keys = keyset === null ? null : await this.#keysets.keys(mintUrl, keyset.id);
    const isListed = (id: string) => keysets?.some((listed) => listed.id === id) === true;
    if (keysets === null || keys === null || !proofs.every(({ id }) => isListed(id))) {
      return { outcome: 'unavailable' };
    }
    const amountSat = sumOfAmounts(proofs) - inputFeeSat(proofs, keysets);
    return amountSat > 0
      ? { outcome: 'planned', plan: planOutputs(amountSat, keys) }
      : { outcome: 'worthless' };
  }
}
