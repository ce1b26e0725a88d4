import {
  createBlindSignature,
  createDLEQProof,
  hashToCurve,
  pointFromHex,
  verifyUnblindedSignature,
} from '@cashu/cashu-ts';
import { z } from 'zod';
import type { TestMintKeysets } from './keysets.ts';
import { MintRefusal } from './refusal.ts';
import type { TestMintSwitches } from './switches.ts';

/** A blinded message: what a wallet wants signed (NUT-00). Amount in sats. */
export const OUTPUT = z.object({ amount: z.int(), id: z.string(), B_: z.string() });

/** A proof that a wallet spends (NUT-00). Amount in sats. */
export const INPUT = z.object({
  amount: z.int(),
  id: z.string(),
  secret: z.string(),
  C: z.string(),
});

export type Output = z.infer<typeof OUTPUT>;
type Input = z.infer<typeof INPUT>;
type OutputSignature = ReturnType<typeof blindSignature>;

/** What the mint has signed, and which proofs are spent or about to be. */
export class TestMintLedger {
  readonly keysets: TestMintKeysets;
  readonly #switches: Pick<TestMintSwitches, 'style'>;
  /** By B_. */
  readonly #signatures = new Map<string, OutputSignature>();
  /** Y of proofs. */
  #spent = new Set<string>();
  /** Y of the inputs and B_ of the outputs of swaps in progress. */
  #pending = new Set<string>();

  constructor(keysets: TestMintKeysets, switches: Pick<TestMintSwitches, 'style'>) {
    this.keysets = keysets;
    this.#switches = switches;
  }

  /** Signs outputs worth an amount, all or none; each is signed at most once. */
  sign(outputs: readonly Output[], amountSat: number): OutputSignature[] {
    if (sumOfAmounts(outputs) !== amountSat) {
      throw new MintRefusal(11005, 'Transaction is not balanced');
    }
    this.#refuseBadOutputs(outputs);
    return outputs.map((output) => this.#signOne(output));
  }

  /**
   * Starts to spend proofs for new signatures (NUT-03); returns the function that completes it. Meanwhile the
   * inputs and outputs are PENDING. The outputs are worth the inputs less the fee.
   *
   * Nutshell checks for spent inputs before it checks the outputs, cdk afterwards, so a repeated swap is
   * refused for its inputs by the one and for its outputs by the other.
   */
  beginSwap(inputs: readonly Input[], outputs: readonly Output[]): () => OutputSignature[] {
    const ys = this.#verified(inputs);
    if (this.#switches.style === 'nutshell') {
      this.#refuseSpent(ys);
    }
    const amountSat = sumOfAmounts(inputs) - this.keysets.feeSat(inputs);
    if (sumOfAmounts(outputs) !== amountSat) {
      throw new MintRefusal(11005, 'Transaction is not balanced');
    }
    this.#refuseBadOutputs(outputs);
    this.#refuseSpent(ys);
    if (ys.some((y) => this.#pending.has(y))) {
      throw new MintRefusal(11002, 'proofs are pending', { cdk: [11002, 'Token Pending'] });
    }
    const reserved = new Set([...ys, ...outputs.map(({ B_ }) => B_)]);
    this.#pending = this.#pending.union(reserved);
    return () => {
      this.#pending = this.#pending.difference(reserved);
      this.#spent = this.#spent.union(new Set(ys));
      return outputs.map((output) => this.#signOne(output));
    };
  }

  /** The state of a proof, by its Y in hex, as `POST /v1/checkstate` sends it (NUT-07). */
  stateOf(y: string) {
    const unspent = this.#pending.has(y) ? 'PENDING' : 'UNSPENT';
    return { Y: y, state: this.#spent.has(y) ? 'SPENT' : unspent, witness: null };
  }

  /** Returns those of the outputs that were signed, each with its signature (NUT-09). */
  restore(asked: readonly Output[]) {
    const outputs = asked.filter(({ B_ }) => this.#signatures.has(B_));
    return { outputs, signatures: outputs.map(({ B_ }) => this.#signatures.get(B_)) };
  }

  #refuseSpent(ys: readonly string[]): void {
    if (ys.some((y) => this.#spent.has(y))) {
      throw new MintRefusal(11001, 'Token already spent.');
    }
  }

  #refuseBadOutputs(outputs: readonly Output[]): void {
    if (new Set(outputs.map(({ B_ }) => B_)).size < outputs.length) {
      throw new MintRefusal(11008, 'Duplicate outputs provided');
    }
    for (const { id, amount, B_ } of outputs) {
      if (this.#signatures.has(B_)) {
        throw new MintRefusal(11003, 'outputs have already been signed before.');
      }
      if (this.#pending.has(B_)) {
        throw new MintRefusal(11004, 'outputs are pending', { cdk: [11008, 'Duplicate outputs'] });
      }
      this.keysets.refuseUnlessActive(id);
      this.keysets.secretKeyFor(id, amount);
    }
  }

  #signOne(output: Output): OutputSignature {
    const signature = blindSignature(output, this.keysets.secretKeyFor(output.id, output.amount));
    this.#signatures.set(output.B_, signature);
    return signature;
  }

  /** Checks that proofs are this mint's and distinct; returns hash_to_curve of each secret, in hex (NUT-07). */
  #verified(inputs: readonly Input[]): string[] {
    if (new Set(inputs.map(({ secret }) => secret)).size < inputs.length) {
      throw new MintRefusal(11007, 'Duplicate inputs provided');
    }
    return inputs.map((input) => {
      if (!isSigned(input, this.keysets.secretKeyFor(input.id, input.amount))) {
        throw new MintRefusal(10001, 'Proof verification failed');
      }
      return hashToCurve(Buffer.from(input.secret)).toHex(true);
    });
  }
}

/** The signature on an output, with its proof (NUT-00, NUT-12). */
function blindSignature({ amount, id, B_ }: Output, secretKey: Uint8Array) {
  const point = pointFromHex(B_);
  const { C_ } = createBlindSignature(point, secretKey, id);
  const { e, s } = createDLEQProof(point, secretKey);
  const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
  return { id, amount, C_: C_.toHex(true), dleq: { e: hex(e), s: hex(s) } };
}

function isSigned({ id, secret, C }: Input, secretKey: Uint8Array): boolean {
  try {
    const proof = { id, secret: Buffer.from(secret), C: pointFromHex(C) };
    return verifyUnblindedSignature(proof, secretKey);
  } catch {
    return false;
  }
}

function sumOfAmounts(parts: readonly { amount: number }[]): number {
  return parts.reduce((sum, { amount }) => sum + amount, 0);
}
