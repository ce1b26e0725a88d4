import { randomBytes } from 'node:crypto';
import {
  createBlindSignature,
  createDLEQProof,
  hashToCurve,
  pointFromHex,
  verifyUnblindedSignature,
} from '@cashu/cashu-ts';
import { z } from 'zod';
import type { TestMintKeysets } from './keysets.ts';
import { MintRejection } from './mint-rejection.ts';
import type { TestMintSwitches } from './switches.ts';

/** A blinded message (NUT-00). Its amount is in sats. */
export const BLINDED_MESSAGE_SCHEMA = z.object({ amount: z.int(), id: z.string(), B_: z.string() });

/** A proof (NUT-00). Its amount is in sats. */
export const PROOF_SCHEMA = z.object({
  amount: z.int(),
  id: z.string(),
  secret: z.string(),
  C: z.string(),
});

export type BlindedMessage = z.infer<typeof BLINDED_MESSAGE_SCHEMA>;
export type Proof = z.infer<typeof PROOF_SCHEMA>;
type BlindSignature = ReturnType<typeof createSignature>;

/** The mint's signatures, and its spent and pending proofs. */
export class TestMintLedger {
  readonly keysets: TestMintKeysets;
  readonly #switches: Pick<TestMintSwitches, 'style' | 'maxInputs'>;
  /** Signatures by B_ of the signed outputs. */
  readonly #signaturesByB = new Map<string, BlindSignature>();
  /** Y of the spent proofs. */
  #spentYs = new Set<string>();
  /** Y of the inputs and B_ of the outputs of swaps that have begun but not completed. */
  #pendingPoints = new Set<string>();

  constructor(keysets: TestMintKeysets, switches: Pick<TestMintSwitches, 'style' | 'maxInputs'>) {
    this.keysets = keysets;
    this.#switches = switches;
  }

  /** Signs all outputs or none. Their sum must be `amountSat`, and none may have been signed before. */
  sign(outputs: readonly BlindedMessage[], amountSat: number): BlindSignature[] {
    if (sumAmounts(outputs) !== amountSat) {
      throw new MintRejection(11005, 'Transaction is not balanced');
    }
    this.#assertOutputsValid(outputs);
    return outputs.map((output) => this.#signOne(output));
  }

  /**
   * Begins a swap (NUT-03) and returns the function that completes it. Until the swap is completed, its inputs
   * and outputs are PENDING. The sum of the outputs must be the sum of the inputs minus the fee.
   *
   * Nutshell checks whether inputs are spent before it checks the outputs. cdk checks the outputs first. Nutshell
   * therefore rejects a repeated swap because of its inputs, and cdk because of its outputs.
   */
  beginSwap(inputs: readonly Proof[], outputs: readonly BlindedMessage[]): () => BlindSignature[] {
    const ys = this.#verifyInputs(inputs);
    if (this.#switches.style === 'nutshell') {
      this.#assertUnspent(ys);
    }
    const amountSat = sumAmounts(inputs) - this.keysets.calculateFeeSat(inputs);
    if (sumAmounts(outputs) !== amountSat) {
      throw new MintRejection(11005, 'Transaction is not balanced');
    }
    this.#assertOutputsValid(outputs);
    this.#assertUnspent(ys);
    if (ys.some((y) => this.#pendingPoints.has(y))) {
      throw new MintRejection(11002, 'proofs are pending', { cdk: [11002, 'Token Pending'] });
    }
    const pointsOfSwap = new Set([...ys, ...outputs.map(({ B_ }) => B_)]);
    this.#pendingPoints = this.#pendingPoints.union(pointsOfSwap);
    return () => {
      this.#pendingPoints = this.#pendingPoints.difference(pointsOfSwap);
      this.#spentYs = this.#spentYs.union(new Set(ys));
      return outputs.map((output) => this.#signOne(output));
    };
  }

  /** Begins a melt (NUT-05): its inputs are PENDING until it is completed or cancelled. */
  beginMelt(inputs: readonly Proof[], requiredSat: number) {
    const ys = this.#verifyInputs(inputs);
    this.#assertUnspent(ys);
    if (ys.some((y) => this.#pendingPoints.has(y))) {
      throw new MintRejection(11002, 'proofs are pending');
    }
    const amountSat = sumAmounts(inputs) - this.keysets.calculateFeeSat(inputs);
    if (amountSat < requiredSat) {
      throw new MintRejection(11005, 'Transaction is not balanced');
    }
    const points = new Set(ys);
    this.#pendingPoints = this.#pendingPoints.union(points);
    const cancel = () => {
      this.#pendingPoints = this.#pendingPoints.difference(points);
    };
    /** Spends the inputs. @returns signatures of as many blank outputs as the change needs (NUT-08) */
    const complete = (costSat: number, blanks: readonly BlindedMessage[]) => {
      cancel();
      this.#spentYs = this.#spentYs.union(points);
      const bits = [...(amountSat - costSat).toString(2)].toReversed();
      const amounts = bits.flatMap((bit, index) => (bit === '1' ? [2 ** index] : []));
      return blanks
        .slice(0, amounts.length)
        .map((blank, index) => this.#signOne({ ...blank, amount: amounts[index] ?? 0 }));
    };
    return { cancel, complete };
  }

  /** Returns the state of a proof as in `POST /v1/checkstate` (NUT-07). @param y in hex */
  getProofState(y: string) {
    let state = 'UNSPENT';
    if (this.#spentYs.has(y)) {
      state = 'SPENT';
    } else if (this.#pendingPoints.has(y)) {
      state = 'PENDING';
    }
    return { Y: y, state, witness: null };
  }

  /** Returns those outputs that the mint has signed, and their signatures (NUT-09). */
  restore(requestedOutputs: readonly BlindedMessage[]) {
    const outputs = requestedOutputs.filter(({ B_ }) => this.#signaturesByB.has(B_));
    return { outputs, signatures: outputs.map(({ B_ }) => this.#signaturesByB.get(B_)) };
  }

  /** Creates proofs of 1 sat, as if a wallet had minted them. Many are much faster so than by requests. */
  createProofs(count: number): Proof[] {
    const { id } = this.keysets.getWithKeys();
    const privateKey = this.keysets.getPrivateKey(id, 1);
    return Array.from({ length: count }, () => {
      const secret = randomBytes(32).toString('hex');
      const point = hashToCurve(Buffer.from(secret));
      return {
        id,
        amount: 1,
        secret,
        C: createBlindSignature(point, privateKey, id).C_.toHex(true),
      };
    });
  }

  #assertUnspent(ys: readonly string[]): void {
    if (ys.some((y) => this.#spentYs.has(y))) {
      throw new MintRejection(11001, 'Token already spent.');
    }
  }

  #assertOutputsValid(outputs: readonly BlindedMessage[]): void {
    if (new Set(outputs.map(({ B_ }) => B_)).size < outputs.length) {
      throw new MintRejection(11008, 'Duplicate outputs provided');
    }
    for (const { id, amount, B_ } of outputs) {
      if (this.#signaturesByB.has(B_)) {
        throw new MintRejection(11003, 'outputs have already been signed before.');
      }
      if (this.#pendingPoints.has(B_)) {
        throw new MintRejection(11004, 'outputs are pending', {
          cdk: [11008, 'Duplicate outputs'],
        });
      }
      this.keysets.assertActive(id);
      // Throws if the keyset has no key for the amount.
      this.keysets.getPrivateKey(id, amount);
    }
  }

  #signOne(output: BlindedMessage): BlindSignature {
    const signature = createSignature(output, this.keysets.getPrivateKey(output.id, output.amount));
    this.#signaturesByB.set(output.B_, signature);
    return signature;
  }

  /** Verifies that proofs are distinct and from this mint. Returns the Y of each, in hex (NUT-07). */
  #verifyInputs(inputs: readonly Proof[]): string[] {
    if (inputs.length > (this.#switches.maxInputs ?? Infinity)) {
      throw new MintRejection(0, 'too many inputs', { status: 422 });
    }
    if (new Set(inputs.map(({ secret }) => secret)).size < inputs.length) {
      throw new MintRejection(11007, 'Duplicate inputs provided');
    }
    return inputs.map((input) => {
      this.keysets.assertNotExpired(input.id);
      if (!isProofValid(input, this.keysets.getPrivateKey(input.id, input.amount))) {
        throw new MintRejection(10001, 'Proof verification failed');
      }
      return hashToCurve(Buffer.from(input.secret)).toHex(true);
    });
  }
}

/** Signs an output (NUT-00) and adds the DLEQ proof (NUT-12). */
function createSignature({ amount, id, B_ }: BlindedMessage, secretKey: Uint8Array) {
  const point = pointFromHex(B_);
  const { C_ } = createBlindSignature(point, secretKey, id);
  const { e, s } = createDLEQProof(point, secretKey);
  const toHex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
  return { id, amount, C_: C_.toHex(true), dleq: { e: toHex(e), s: toHex(s) } };
}

function isProofValid({ id, secret, C }: Proof, secretKey: Uint8Array): boolean {
  try {
    const proof = { id, secret: Buffer.from(secret), C: pointFromHex(C) };
    return verifyUnblindedSignature(proof, secretKey);
  } catch {
    return false;
  }
}

function sumAmounts(items: readonly { amount: number }[]): number {
  return items.reduce((sum, { amount }) => sum + amount, 0);
}
