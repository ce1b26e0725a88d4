import type { BlindSignature, Proof, ProofState } from '../domain/ecash.ts';
import { type LightningStanding, meltStanding, PROBABLY_MADE } from '../domain/melt-standing.ts';
import { blankOutputs, type Outputs, operationSeed } from '../ecash/outputs.ts';
import { yOf } from '../ecash/proofs.ts';
import { reasonOf } from '../mint/ask-mint.ts';
import type { EcashClient } from '../mint/ecash-client.ts';
import type { KeysetCache } from '../mint/keyset-cache.ts';
import { OTHER_RUN } from './operation-runs.ts';

/** Proofs that are given to their mint for a Lightning payment (NUT-05, NUT-08). */
export interface Melt {
  /** Names the operation: with the treasury secret, its blank outputs follow from it. */
  id: string;
  mintUrl: string;
  /** Of this operation alone. */
  quoteId: string;
  inputs: readonly Proof[];
  /** What the change is to be signed on; their number may be 0. */
  blanks: { keysetId: string; count: number };
  /** Whether the payment may still be asked for: its invoice has not expired. */
  isPayable: boolean;
  /** Whether this much was found before, so long ago that it is believed now. */
  isSecondLook: boolean;
  /** Asked before each request to the mint: whether this run still has the operation to itself. */
  keepAtIt: () => Promise<boolean>;
}

/** How a melt stands. */
export type MeltEnd =
  /** The payment was made, and this came back. */
  | { outcome: 'paid'; change: Proof[] }
  /**
   * The payment was not made, and will not be; the proofs are as they were. Where some of them were
   * spent, the reason says what is known of the payment.
   */
  | { outcome: 'failed'; reason: string; haveSpent: boolean }
  /**
   * It seems so, or the proofs seem to be spent for something else; but an answer was lost, or the
   * mint contradicts itself: look once more after a while.
   */
  | { outcome: 'doubtful'; reason: string }
  /** The payment is under way, or nobody knows yet. */
  | { outcome: 'unsettled'; reason: string };

/**
 * Has a Lightning payment made so that no answer can be lost for good: one melt quote for each
 * operation, which a mint pays once, whatever was sent how often. What became of it follows from the
 * state of the quote and of the inputs (NUT-07), and the change can be had again (NUT-09).
 */
export class MeltEcash {
  readonly #mints: Pick<EcashClient, 'melt' | 'readMeltQuote' | 'checkState' | 'restore'>;
  readonly #keysets: Pick<KeysetCache, 'keys'>;
  readonly #treasurySecret: string;

  constructor(parts: {
    mints: Pick<EcashClient, 'melt' | 'readMeltQuote' | 'checkState' | 'restore'>;
    keysets: Pick<KeysetCache, 'keys'>;
    treasurySecret: string;
  }) {
    this.#mints = parts.mints;
    this.#keysets = parts.keysets;
    this.#treasurySecret = parts.treasurySecret;
  }

  /** Asks for a payment of which nothing was sent to the mint before. */
  async begin(melt: Melt): Promise<MeltEnd> {
    const sent = await this.#send(melt);
    switch (sent.outcome) {
      case 'ended':
        return sent.end;
      case 'untouched':
        return failed(sent.reason);
      case 'refused':
        // One request, and its answer: where nothing was done, nothing will be.
        return this.#settled(melt, sent.reason, true);
      case 'lost':
        return this.#settled(melt, sent.reason, false);
    }
  }

  /** Finds out about a payment that may have been asked for before, and asks again where it was not. */
  async resume(melt: Melt): Promise<MeltEnd> {
    const look = await this.#look(melt);
    if (look.standing !== 'not_done' || !melt.isPayable) {
      return this.#ended(melt, look, 'the payment was not made in time', melt.isSecondLook);
    }
    // The same quote, inputs and outputs once more: sent twice, it is paid once. What was found before
    // says nothing of this request.
    const again = { ...melt, isSecondLook: false };
    const sent = await this.#send(again);
    switch (sent.outcome) {
      case 'ended':
        return sent.end;
      case 'untouched':
        return { outcome: 'unsettled', reason: sent.reason };
      case 'refused':
        return this.#settled(again, sent.reason, melt.isSecondLook);
      case 'lost':
        return this.#settled(again, sent.reason, false);
    }
  }

  async #settled(melt: Melt, reason: string, isCertain: boolean): Promise<MeltEnd> {
    return this.#ended(melt, await this.#look(melt), reason, isCertain);
  }

  /** What a look means after a request that did not end it, for the reason given. */
  async #ended(melt: Melt, look: Look, reason: string, isCertain: boolean): Promise<MeltEnd> {
    switch (look.standing) {
      case 'paid':
        return this.#paid(melt);
      case 'not_done':
        return isCertain ? failed(reason) : { outcome: 'doubtful', reason };
      case 'contradictory':
        return this.#contradicted(melt, look);
      case 'under_way':
      case 'unknown':
        return { outcome: 'unsettled', reason: look.reason };
    }
  }

  /** What was signed for us says that the payment was made, whatever the mint says of the quote. */
  async #contradicted(
    melt: Melt,
    { isAllSpent, reason }: Extract<Look, { standing: 'contradictory' }>,
  ): Promise<MeltEnd> {
    if (isAllSpent && melt.blanks.count > 0) {
      const end = await this.#paid({ ...melt, isSecondLook: false });
      const isSigned = end.outcome === 'paid' && end.change.length > 0;
      if (isSigned || end.outcome === 'unsettled') {
        return end;
      }
    }
    // Without outputs nothing can be signed for a payment that was made.
    const known = isAllSpent && melt.blanks.count === 0 ? PROBABLY_MADE : reason;
    return melt.isSecondLook
      ? { outcome: 'failed', reason: known, haveSpent: true }
      : { outcome: 'doubtful', reason: known };
  }

  async #send(melt: Melt): Promise<Sent> {
    const { mintUrl, quoteId, inputs } = melt;
    if (!(await melt.keepAtIt())) {
      return { outcome: 'untouched', reason: OTHER_RUN };
    }
    const outputs = this.#outputs(melt);
    const answer = await this.#mints.melt(mintUrl, {
      quoteId,
      inputs,
      outputs: outputs.messages,
    });
    switch (answer.outcome) {
      case 'answered':
        return answer.state === 'PAID'
          ? { outcome: 'ended', end: await this.#paid(melt, outputs, answer.change) }
          : { outcome: 'lost', reason: 'the mint did not say how the payment ended' };
      case 'refused':
        return { outcome: 'refused', reason: answer.detail || 'the mint refused' };
      case 'rate_limited':
        return { outcome: 'untouched', reason: 'rate limited' };
      case 'unavailable':
        return { outcome: answer.isUnsent ? 'untouched' : 'lost', reason: answer.reason };
    }
  }

  /** Looks at the quote and the inputs. */
  async #look({ mintUrl, quoteId, inputs, keepAtIt }: Melt): Promise<Look> {
    if (!(await keepAtIt())) {
      return { standing: 'unknown', reason: OTHER_RUN };
    }
    const quote = await this.#mints.readMeltQuote(mintUrl, quoteId);
    if (quote.outcome !== 'found' && quote.outcome !== 'not_found') {
      return { standing: 'unknown', reason: reasonOf(quote) };
    }
    if (!(await keepAtIt())) {
      return { standing: 'unknown', reason: OTHER_RUN };
    }
    const answer = await this.#mints.checkState(mintUrl, inputs.map(yOf));
    if (answer.outcome !== 'found') {
      return { standing: 'unknown', reason: reasonOf(answer) };
    }
    const states = new Set<ProofState>(answer.states.values());
    return meltStanding(quote.outcome === 'found' ? quote.state : 'not_found', states);
  }

  /**
   * The payment was made; the change is what the mint says, or restores.
   *
   * @param said as it came with the answer to the melt
   */
  async #paid(
    melt: Melt,
    outputs = this.#outputs(melt),
    said: BlindSignature[] | null = null,
  ): Promise<MeltEnd> {
    const { mintUrl, blanks, keepAtIt, isSecondLook } = melt;
    if (blanks.count === 0) {
      return { outcome: 'paid', change: [] };
    }
    const keys = await this.#keysets.keys(mintUrl, blanks.keysetId);
    if (keys === null) {
      return { outcome: 'unsettled', reason: 'no keys of the mint' };
    }
    const inAnswer = said === null ? null : outputs.unblind(said, keys);
    if (inAnswer !== null && inAnswer.length > 0) {
      return { outcome: 'paid', change: inAnswer };
    }
    if (!(await keepAtIt())) {
      return { outcome: 'unsettled', reason: OTHER_RUN };
    }
    const answer = await this.#mints.restore(mintUrl, outputs.messages);
    if (answer.outcome !== 'found') {
      return { outcome: 'unsettled', reason: reasonOf(answer) };
    }
    const signatures = outputs.match(answer.restored);
    const change = signatures === null ? null : outputs.unblind(signatures, keys);
    if (change === null) {
      return { outcome: 'unsettled', reason: 'change that is not for our outputs' };
    }
    // A mint may say that it paid a moment before it signs what comes back.
    return change.length > 0 || isSecondLook || inAnswer !== null
      ? { outcome: 'paid', change }
      : { outcome: 'doubtful', reason: 'the payment was made; no change has come back yet' };
  }

  #outputs({ id, blanks }: Melt): Outputs {
    const seed = operationSeed(this.#treasurySecret, id, 0);
    return blankOutputs(seed, blanks.count, blanks.keysetId);
  }
}

/** What came of one request. */
type Sent =
  | { outcome: 'ended'; end: MeltEnd }
  /** It never reached the mint, or was turned away before it was read. */
  | { outcome: 'untouched'; reason: string }
  | { outcome: 'refused'; reason: string }
  | { outcome: 'lost'; reason: string };

type Look = LightningStanding | { standing: 'unknown'; reason: string };

function failed(reason: string) {
  return { outcome: 'failed', reason, haveSpent: false } as const;
}
