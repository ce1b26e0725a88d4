import type { OutputPlan, Proof } from '../domain/ecash.ts';
import { deriveOutputs, operationSeed } from '../ecash/outputs.ts';
import { yOf } from '../ecash/proofs.ts';
import { reasonOf } from '../mint/ask-mint.ts';
import type { EcashClient } from '../mint/ecash-client.ts';
import type { SwapRefusal } from '../mint/ecash-refusal.ts';
import type { KeysetCache } from '../mint/keyset-cache.ts';
import { OTHER_RUN } from './operation-runs.ts';

/** Proofs that are given to their mint for new ones (NUT-03). */
export interface Swap {
  /** Names the operation: with the treasury secret, its outputs follow from it. */
  id: string;
  mintUrl: string;
  inputs: readonly Proof[];
  /** Every plan of outputs that may have been sent, the newest last: that one is sent. */
  plans: readonly OutputPlan[];
  /** Asked before each request to the mint: whether this run still has the operation to itself. */
  keepAtIt: () => Promise<boolean>;
}

/** How a swap stands. */
export type SwapEnd =
  /** The mint signed. */
  | { outcome: 'done'; proofs: Proof[] }
  /**
   * The mint has not done it. Where an answer to an earlier request was lost (`isCertain` is false), a
   * mint that is not of one mind could still have done it then: look once more after a while.
   */
  | { outcome: 'refused'; reason: SwapRefusal; isCertain: boolean }
  /** The mint has new keysets or fees, so that it did not do it by the newest plan: make another. */
  | { outcome: 'plan_outdated'; isCertain: boolean }
  /** Nobody knows yet. `isUntouched`: the mint has certainly done nothing so far. */
  | { outcome: 'unsettled'; reason: string; isUntouched: boolean };

/**
 * Swaps proofs so that no answer can be lost for good: whether a mint has done it follows from the
 * state of the inputs (NUT-07), and what it signed can be had again (NUT-09), because the outputs are
 * derived and not random.
 */
export class SwapEcash {
  readonly #mints: Pick<EcashClient, 'swap' | 'checkState' | 'restore'>;
  readonly #keysets: Pick<KeysetCache, 'keys'>;
  readonly #treasurySecret: string;

  constructor(parts: {
    mints: Pick<EcashClient, 'swap' | 'checkState' | 'restore'>;
    keysets: Pick<KeysetCache, 'keys'>;
    treasurySecret: string;
  }) {
    this.#mints = parts.mints;
    this.#keysets = parts.keysets;
    this.#treasurySecret = parts.treasurySecret;
  }

  /** Swaps proofs of which nothing was sent to the mint before. */
  async begin(swap: Swap): Promise<SwapEnd> {
    const sent = await this.#send(swap);
    switch (sent.outcome) {
      case 'done':
        return sent;
      case 'untouched':
        return { outcome: 'unsettled', reason: sent.reason, isUntouched: true };
      case 'refused':
      case 'plan_outdated':
        return { ...sent, isCertain: true };
      case 'contradicted':
        // Something in between may have sent our one request twice.
        return this.#settled(await this.#look(swap), sent.reason, true);
      case 'lost':
        return this.resume(swap);
    }
  }

  /** Finishes a swap that may have been sent to the mint before. */
  async resume(swap: Swap): Promise<SwapEnd> {
    const look = await this.#look(swap);
    if (look.outcome !== 'unspent') {
      return this.#settled(look, 'spent', false);
    }
    // The same inputs and outputs once more: sent twice, it is done once.
    const sent = await this.#send(swap);
    switch (sent.outcome) {
      case 'done':
        return sent;
      case 'refused':
      case 'plan_outdated':
        return { ...sent, isCertain: false };
      case 'contradicted':
        return this.#settled(await this.#look(swap), sent.reason, false);
      case 'untouched':
      case 'lost':
        return { outcome: 'unsettled', reason: sent.reason, isUntouched: false };
    }
  }

  /** What a look means after the mint said no, or after nobody knows what it said. */
  #settled(look: Look, reason: SwapRefusal, isCertain: boolean): SwapEnd {
    switch (look.outcome) {
      case 'done':
        return look;
      case 'spent_elsewhere':
        return { outcome: 'refused', reason: 'spent', isCertain };
      case 'unspent':
        return { outcome: 'refused', reason, isCertain };
      case 'pending':
        // Held by somebody else where our one request was answered; else perhaps by one of ours.
        return isCertain
          ? { outcome: 'refused', reason: 'pending', isCertain }
          : { outcome: 'unsettled', reason: 'pending at the mint', isUntouched: false };
      case 'unknown':
        return { outcome: 'unsettled', reason: look.reason, isUntouched: false };
    }
  }

  async #send({ id, mintUrl, inputs, plans, keepAtIt }: Swap): Promise<Sent> {
    const plan = plans.at(-1);
    const keys = plan === undefined ? null : await this.#keysets.keys(mintUrl, plan.keysetId);
    if (plan === undefined || keys === null) {
      return { outcome: 'untouched', reason: NO_KEYS };
    }
    if (!(await keepAtIt())) {
      return { outcome: 'lost', reason: OTHER_RUN };
    }
    const outputs = this.#outputs(id, plan, plans.length - 1);
    const answer = await this.#mints.swap(mintUrl, inputs, outputs.messages);
    switch (answer.outcome) {
      case 'signed': {
        const proofs = outputs.unblind(answer.signatures, keys);
        return proofs === null
          ? { outcome: 'lost', reason: 'signatures that are not for our outputs' }
          : { outcome: 'done', proofs };
      }
      case 'refused':
        return refusal(answer.reason);
      case 'rate_limited':
        return { outcome: 'untouched', reason: 'rate limited' };
      case 'unavailable':
        return { outcome: answer.isUnsent ? 'untouched' : 'lost', reason: answer.reason };
    }
  }

  /** Looks at what became of the inputs, and has the outputs restored where they are spent. */
  async #look(swap: Swap): Promise<Look> {
    const { mintUrl, inputs, keepAtIt } = swap;
    if (!(await keepAtIt())) {
      return { outcome: 'unknown', reason: OTHER_RUN };
    }
    const answer = await this.#mints.checkState(mintUrl, inputs.map(yOf));
    if (answer.outcome !== 'found') {
      return { outcome: 'unknown', reason: reasonOf(answer) };
    }
    const states = new Set(answer.states.values());
    if (!states.has('SPENT') && !states.has('PENDING')) {
      return { outcome: 'unspent' };
    }
    const restored = await this.#restore(swap);
    return restored.outcome === 'spent_elsewhere' && !states.has('SPENT')
      ? { outcome: 'pending' }
      : restored;
  }

  async #restore({ id, mintUrl, plans, keepAtIt }: Swap): Promise<Look> {
    for (const [index, plan] of plans.entries()) {
      const keys = await this.#keysets.keys(mintUrl, plan.keysetId);
      if (keys === null || !(await keepAtIt())) {
        return { outcome: 'unknown', reason: keys === null ? NO_KEYS : OTHER_RUN };
      }
      const outputs = this.#outputs(id, plan, index);
      const answer = await this.#mints.restore(mintUrl, outputs.messages);
      if (answer.outcome !== 'found') {
        return { outcome: 'unknown', reason: reasonOf(answer) };
      }
      if (answer.restored.length > 0) {
        const signatures = outputs.match(answer.restored);
        const proofs = signatures === null ? null : outputs.unblind(signatures, keys);
        return proofs === null
          ? { outcome: 'unknown', reason: 'restored signatures that are not for our outputs' }
          : { outcome: 'done', proofs };
      }
    }
    return { outcome: 'spent_elsewhere' };
  }

  #outputs(id: string, plan: OutputPlan, index: number) {
    return deriveOutputs(operationSeed(this.#treasurySecret, id, index), plan);
  }
}

/** What came of one request. */
type Sent =
  | { outcome: 'done'; proofs: Proof[] }
  | { outcome: 'plan_outdated' }
  /** It never reached the mint, or was turned away before it was read. */
  | { outcome: 'untouched'; reason: string }
  | { outcome: 'refused'; reason: SwapRefusal }
  /** Refused in words that fit a swap that is done, or under way, already. */
  | { outcome: 'contradicted'; reason: SwapRefusal }
  | { outcome: 'lost'; reason: string };

/** What became of the inputs. */
type Look =
  | { outcome: 'done'; proofs: Proof[] }
  | { outcome: 'unspent' }
  | { outcome: 'spent_elsewhere' }
  | { outcome: 'pending' }
  | { outcome: 'unknown'; reason: string };

const NO_KEYS = 'no keys of the mint';

function refusal(reason: SwapRefusal): Sent {
  switch (reason) {
    case 'keyset_inactive':
    case 'unbalanced':
      return { outcome: 'plan_outdated' };
    case 'spent':
    case 'pending':
    case 'outputs_signed':
    case 'other':
      return { outcome: 'contradicted', reason };
    case 'invalid':
      return { outcome: 'refused', reason };
  }
}
