import { type OutputPlan, type Proof, sumOfAmounts } from '../mints/ecash.ts';
import type { EcashClient } from '../mints/ecash-client.ts';
import type { SwapRefusal } from '../mints/ecash-refusal.ts';
import type { KeysetCache } from '../mints/keyset-cache.ts';
import { reasonOf } from '../mints/mint-client.ts';
import { chooseKeyset, deriveOutputs, operationSeed, planOutputs } from './ecash/outputs.ts';
import { inputFeeSat, yOf } from './ecash/proofs.ts';

/** A swap of proofs for new ones (NUT-03), as its journal has it. */
export interface Swap {
  /** Its outputs are derived from this id and the treasury secret. */
  id: string;
  mintUrl: string;
  inputs: readonly Proof[];
  /** Every plan of outputs that may have been sent to the mint, newest last. The newest is sent. */
  plans: readonly OutputPlan[];
  /** Called before each request; false if another run has taken over, and nothing may be sent. */
  renewLease: () => Promise<boolean>;
}

export type SwapResult =
  /** The mint signed. */
  | { outcome: 'done'; proofs: Proof[] }
  /**
   * The mint did not do it. If `isFinal` is false, an earlier request with a lost response may still
   * arrive: ask again later.
   */
  | { outcome: 'refused'; reason: SwapRefusal; isFinal: boolean }
  /** The mint did not do it, because it has other keysets or fees than the newest plan assumes. */
  | { outcome: 'plan_outdated'; isFinal: boolean }
  /** Unknown so far. `isUnsent`: the mint has certainly received nothing. */
  | { outcome: 'unsettled'; reason: string; isUnsent: boolean };

interface SwapEcashParts {
  mints: Pick<EcashClient, 'swap' | 'checkState' | 'restore'>;
  keysets: Pick<KeysetCache, 'keys'>;
  treasurySecret: string;
}

/** Why a run stops working on a swap. */
export const LEASE_LOST = 'another run has taken over';

const NO_KEYS = 'the keys of the mint could not be read';

/**
 * Swaps proofs so that a lost response loses nothing: the state of the inputs says whether the mint did
 * it (NUT-07), and what it signed can be restored (NUT-09), because the outputs are derived, not random.
 */
export class SwapEcash {
  readonly #parts: SwapEcashParts;

  constructor(parts: SwapEcashParts) {
    this.#parts = parts;
  }

  /** Starts a swap of which nothing was sent before. */
  async begin(swap: Swap): Promise<SwapResult> {
    const sent = await this.#send(swap);
    switch (sent.outcome) {
      case 'unsent':
        return { outcome: 'unsettled', reason: sent.reason, isUnsent: true };
      case 'lost':
        return this.resume(swap);
      default:
        return this.#conclude(swap, sent, true);
    }
  }

  /** Finishes a swap that may have been sent before. */
  async resume(swap: Swap): Promise<SwapResult> {
    const found = await this.#inspect(swap);
    if (found.outcome !== 'unspent') {
      return fromInspection(found, 'spent', false);
    }
    // The mint does the same swap only once, however often it receives it.
    const sent = await this.#send(swap);
    switch (sent.outcome) {
      case 'unsent':
      case 'lost':
        return { outcome: 'unsettled', reason: sent.reason, isUnsent: false };
      default:
        return this.#conclude(swap, sent, false);
    }
  }

  async #conclude(swap: Swap, answer: Answer, isFinal: boolean): Promise<SwapResult> {
    if (answer.outcome === 'signed') {
      return { outcome: 'done', proofs: answer.proofs };
    }
    const { reason } = answer;
    switch (reason) {
      case 'keyset_inactive':
      case 'unbalanced':
        return { outcome: 'plan_outdated', isFinal };
      case 'invalid':
        return { outcome: 'refused', reason, isFinal };
      default:
        // The refusal also fits a swap that is done or in progress: a proxy may have sent it twice.
        return fromInspection(await this.#inspect(swap), reason, isFinal);
    }
  }

  async #send(swap: Swap): Promise<Answer | NoAnswer> {
    const { mintUrl, inputs, plans } = swap;
    const plan = plans.at(-1);
    const keys = plan === undefined ? null : await this.#parts.keysets.keys(mintUrl, plan.keysetId);
    if (plan === undefined || keys === null) {
      return { outcome: 'unsent', reason: NO_KEYS };
    }
    if (!(await swap.renewLease())) {
      return { outcome: 'lost', reason: LEASE_LOST };
    }
    const outputs = this.#outputs(swap, plans.length - 1, plan);
    const answer = await this.#parts.mints.swap(mintUrl, inputs, outputs.messages);
    switch (answer.outcome) {
      case 'signed': {
        const proofs = outputs.unblind(answer.signatures, keys);
        return proofs === null
          ? { outcome: 'lost', reason: 'the mint signed something else' }
          : { outcome: 'signed', proofs };
      }
      case 'refused':
        return answer;
      case 'rate_limited':
        return { outcome: 'unsent', reason: 'rate limited' };
      case 'unavailable':
        return { outcome: answer.isUnsent ? 'unsent' : 'lost', reason: answer.reason };
    }
  }

  /** Reads the states of the inputs, and restores the outputs if inputs are spent. */
  async #inspect(swap: Swap): Promise<Inspection> {
    const { mintUrl, inputs } = swap;
    if (!(await swap.renewLease())) {
      return { outcome: 'unknown', reason: LEASE_LOST };
    }
    const answer = await this.#parts.mints.checkState(mintUrl, inputs.map(yOf));
    if (answer.outcome !== 'found') {
      return { outcome: 'unknown', reason: reasonOf(answer) };
    }
    const states = [...answer.states.values()];
    if (states.every((state) => state === 'UNSPENT')) {
      return { outcome: 'unspent' };
    }
    const restored = await this.#restore(swap);
    if (restored !== 'nothing') {
      return restored;
    }
    return { outcome: states.includes('SPENT') ? 'spent_elsewhere' : 'pending' };
  }

  async #restore(swap: Swap): Promise<Inspection | 'nothing'> {
    const { mintUrl, plans } = swap;
    for (const [index, plan] of plans.entries()) {
      const keys = await this.#parts.keysets.keys(mintUrl, plan.keysetId);
      if (keys === null || !(await swap.renewLease())) {
        return { outcome: 'unknown', reason: keys === null ? NO_KEYS : LEASE_LOST };
      }
      const outputs = this.#outputs(swap, index, plan);
      const answer = await this.#parts.mints.restore(mintUrl, outputs.messages);
      if (answer.outcome !== 'found') {
        return { outcome: 'unknown', reason: reasonOf(answer) };
      }
      if (answer.restored.length > 0) {
        const signatures = outputs.match(answer.restored);
        const proofs = signatures === null ? null : outputs.unblind(signatures, keys);
        return proofs === null
          ? { outcome: 'unknown', reason: 'the mint restored something else' }
          : { outcome: 'done', proofs };
      }
    }
    return 'nothing';
  }

  #outputs({ id }: Swap, index: number, plan: OutputPlan) {
    return deriveOutputs(operationSeed(this.#parts.treasurySecret, id, index), plan);
  }
}

/** The mint's response to one request. */
type Answer = { outcome: 'signed'; proofs: Proof[] } | { outcome: 'refused'; reason: SwapRefusal };

type NoAnswer =
  /** The mint did not receive the request, or rejected it unread. */
  { outcome: 'unsent'; reason: string } | { outcome: 'lost'; reason: string };

/** What the mint says of a swap's inputs and outputs. */
type Inspection =
  | { outcome: 'done'; proofs: Proof[] }
  | { outcome: 'unspent' | 'spent_elsewhere' | 'pending' }
  | { outcome: 'unknown'; reason: string };

/** @param reason why the mint refused the swap, unless its inputs are spent */
function fromInspection(found: Inspection, reason: SwapRefusal, isFinal: boolean): SwapResult {
  switch (found.outcome) {
    case 'done':
      return found;
    case 'unspent':
      return { outcome: 'refused', reason, isFinal };
    case 'spent_elsewhere':
      return { outcome: 'refused', reason: 'spent', isFinal };
    case 'pending':
      // The inputs belong to a swap of somebody else, unless a request of ours was lost.
      return isFinal
        ? { outcome: 'refused', reason: 'pending', isFinal }
        : { outcome: 'unsettled', reason: 'pending at the mint', isUnsent: false };
    case 'unknown':
      return { outcome: 'unsettled', reason: found.reason, isUnsent: false };
  }
}

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
