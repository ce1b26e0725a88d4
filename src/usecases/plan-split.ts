import { chooseExactly } from '../domain/choose-proofs.ts';
import type { OutputPlan, Proof } from '../domain/ecash.ts';
import { planOutputs } from '../ecash/outputs.ts';
import type { KeysetCache } from '../mint/keyset-cache.ts';
import type { PlannedOutputs, PlanOutputs } from './plan-outputs.ts';

/** What proofs can be swapped for where a part of it has to be an exact amount. */
export type PlannedSplit =
  | { outcome: 'planned'; plan: OutputPlan }
  /** They are worth less than the amount after the mint's fee. */
  | { outcome: 'short' }
  /** The mint does not tell what is needed to know it, or signs nothing in sat. */
  | { outcome: 'unavailable' };

/**
 * Decides what to ask a mint for in a swap, so that some of the outputs make up an amount and the others
 * the rest. All are in one order, by their size: the mint is not told which are which.
 */
export class PlanSplit {
  readonly #planOutputs: Pick<PlanOutputs, 'for' | 'afresh'>;
  readonly #keysets: Pick<KeysetCache, 'keys'>;

  constructor(
    planOutputs: Pick<PlanOutputs, 'for' | 'afresh'>,
    keysets: Pick<KeysetCache, 'keys'>,
  ) {
    this.#planOutputs = planOutputs;
    this.#keysets = keysets;
  }

  /** By what is known of the mint's keysets. */
  async for(mintUrl: string, proofs: readonly Proof[], amountSat: number): Promise<PlannedSplit> {
    return this.#split(mintUrl, await this.#planOutputs.for(mintUrl, proofs), amountSat);
  }

  /** By what the mint says now, as after it refused to sign with a keyset. */
  async afresh(
    mintUrl: string,
    proofs: readonly Proof[],
    amountSat: number,
  ): Promise<PlannedSplit> {
    return this.#split(mintUrl, await this.#planOutputs.afresh(mintUrl, proofs), amountSat);
  }

  async #split(mintUrl: string, whole: PlannedOutputs, amountSat: number): Promise<PlannedSplit> {
    if (whole.outcome !== 'planned') {
      return whole.outcome === 'worthless' ? { outcome: 'short' } : whole;
    }
    const { keysetId } = whole.plan;
    const restSat = whole.plan.amounts.reduce((sum, amount) => sum + amount, 0) - amountSat;
    if (restSat <= 0) {
      return restSat === 0 ? whole : { outcome: 'short' };
    }
    const keys = await this.#keysets.keys(mintUrl, keysetId);
    if (keys === null) {
      return { outcome: 'unavailable' };
    }
    const amounts = [amountSat, restSat]
      .flatMap((each) => planOutputs(each, keys).amounts)
      .sort((a, b) => a - b);
    const canBeTold = chooseExactly(amounts.map(asPiece), amountSat) !== null;
    return canBeTold
      ? { outcome: 'planned', plan: { keysetId, amounts } }
      : { outcome: 'unavailable' };
  }
}

function asPiece(amount: number) {
  return { amount };
}
