import {
  createBlindSignature,
  createDLEQProof,
  hashToCurve,
  pointFromHex,
  verifyUnblindedSignature,
} from '@cashu/cashu-ts';
import type { TestMintKeysets } from './keysets.ts';
import { MintRefusal } from './refusal.ts';

/** A blinded message: what a wallet wants signed (NUT-00). Amount in sats. */
export interface Output {
  amount: number;
  id: string;
  B_: string;
}

/** A proof that a wallet gives in (NUT-00). Amount in sats. */
export interface Input {
  amount: number;
  id: string;
  secret: string;
  C: string;
  /** What unlocks it (NUT-10), JSON; null where there is none. */
  witness: string | null;
}

/** The mint's signature on an output, with its proof (NUT-00, NUT-12). */
export interface OutputSignature {
  id: string;
  amount: number;
  C_: string;
  dleq: { e: string; s: string };
}

/** Inputs that this mint has signed, as it knows them. */
export interface VerifiedInput {
  /** hash_to_curve(secret) in hex (NUT-07). */
  y: string;
  witness: string | null;
}

/** What a swap or a melt under way has taken: PENDING until it is committed or released. */
export interface Reservation {
  readonly inputs: readonly VerifiedInput[];
  readonly outputs: readonly Output[];
}

/** The mint's memory of what it has signed, and of what was spent or is about to be. */
export class TestMintLedger {
  readonly keysets: TestMintKeysets;
  /** By B_. */
  readonly #signatures = new Map<string, OutputSignature>();
  /** B_ of what may be signed soon. */
  readonly #pendingOutputs = new Set<string>();
  /** The witnesses of spent proofs, by Y. */
  readonly #spent = new Map<string, string | null>();
  /** Y of proofs that may be spent soon. */
  readonly #pendingInputs = new Set<string>();

  constructor(keysets: TestMintKeysets) {
    this.keysets = keysets;
  }

  /** Signs outputs, all or none; each is signed at most once. */
  sign(outputs: readonly Output[]): OutputSignature[] {
    this.refuseBadOutputs(outputs);
    return outputs.map((output) => this.#signOne(output));
  }

  /** The state of a proof, by its Y in hex, as `POST /v1/checkstate` tells it (NUT-07). */
  stateOf(y: string) {
    const unspent = this.#pendingInputs.has(y) ? 'PENDING' : 'UNSPENT';
    const state = this.#spent.has(y) ? 'SPENT' : unspent;
    return { Y: y, state, witness: this.#spent.get(y) ?? null };
  }

  /** Those of the outputs that were signed, each with its signature (NUT-09). */
  restore<Asked extends Pick<Output, 'B_'>>(asked: readonly Asked[]) {
    const known = asked.flatMap((output) => {
      const signature = this.#signatures.get(output.B_);
      return signature === undefined ? [] : [{ output, signature }];
    });
    return {
      outputs: known.map(({ output }) => output),
      signatures: known.map(({ signature }) => signature),
    };
  }

  /** Checks that proofs are this mint's, and none is given twice; not whether they are spent. */
  verified(inputs: readonly Input[]): VerifiedInput[] {
    if (new Set(inputs.map(({ secret }) => secret)).size < inputs.length) {
      throw new MintRefusal({ kind: 'duplicate_inputs' });
    }
    return inputs.map((input) => this.#verifiedOne(input));
  }

  refuseSpent(inputs: readonly VerifiedInput[]): void {
    if (inputs.some(({ y }) => this.#spent.has(y))) {
      throw new MintRefusal({ kind: 'proof_spent' });
    }
  }

  refusePending(inputs: readonly VerifiedInput[]): void {
    if (inputs.some(({ y }) => this.#pendingInputs.has(y))) {
      throw new MintRefusal({ kind: 'proof_pending' });
    }
  }

  /** Refuses outputs that cannot be signed, with their amounts. */
  refuseBadOutputs(outputs: readonly Output[]): void {
    this.refuseBadBlanks(outputs);
    for (const { id, amount } of outputs) {
      this.keysets.secretKeyFor(id, amount);
    }
  }

  /** Refuses outputs that cannot be signed, whatever their amounts will be (NUT-08). */
  refuseBadBlanks(outputs: readonly Output[]): void {
    if (new Set(outputs.map(({ B_ }) => B_)).size < outputs.length) {
      throw new MintRefusal({ kind: 'duplicate_outputs' });
    }
    for (const { id, B_ } of outputs) {
      if (this.#signatures.has(B_)) {
        throw new MintRefusal({ kind: 'output_already_signed' });
      }
      if (this.#pendingOutputs.has(B_)) {
        throw new MintRefusal({ kind: 'output_pending' });
      }
      this.keysets.refuseUnlessActive(id);
      pointOr('output_invalid', B_);
    }
  }

  /** Takes inputs and outputs, which must have been found good: both are PENDING from now on. */
  reserve(inputs: readonly VerifiedInput[], outputs: readonly Output[]): Reservation {
    for (const { y } of inputs) {
      this.#pendingInputs.add(y);
    }
    for (const { B_ } of outputs) {
      this.#pendingOutputs.add(B_);
    }
    return { inputs, outputs };
  }

  /** Ends a reservation: its inputs are spent, and these of its outputs signed. */
  commit(reservation: Reservation, outputs: readonly Output[]): OutputSignature[] {
    this.release(reservation);
    for (const { y, witness } of reservation.inputs) {
      this.#spent.set(y, witness);
    }
    return outputs.map((output) => this.#signOne(output));
  }

  /** Ends a reservation as if it had never been. */
  release({ inputs, outputs }: Reservation): void {
    for (const { y } of inputs) {
      this.#pendingInputs.delete(y);
    }
    for (const { B_ } of outputs) {
      this.#pendingOutputs.delete(B_);
    }
  }

  #signOne({ amount, id, B_ }: Output): OutputSignature {
    const secretKey = this.keysets.secretKeyFor(id, amount);
    const point = pointOr('output_invalid', B_);
    const { C_ } = createBlindSignature(point, secretKey, id);
    const { e, s } = createDLEQProof(point, secretKey);
    const dleq = { e: toHex(e), s: toHex(s) };
    const signature = { id, amount, C_: C_.toHex(true), dleq };
    this.#signatures.set(B_, signature);
    return signature;
  }

  #verifiedOne({ amount, id, secret, C, witness }: Input): VerifiedInput {
    const secretKey = this.keysets.secretKeyFor(id, amount);
    const secretBytes = new TextEncoder().encode(secret);
    const proof = { id, secret: secretBytes, C: pointOr('proof_invalid', C) };
    if (!verifyUnblindedSignature(proof, secretKey)) {
      throw new MintRefusal({ kind: 'proof_invalid' });
    }
    return { y: hashToCurve(secretBytes).toHex(true), witness };
  }
}

/** The sum in sats. */
export function sumOfAmounts(parts: readonly { amount: number }[]): number {
  return parts.reduce((sum, { amount }) => sum + amount, 0);
}

function pointOr(kind: 'output_invalid' | 'proof_invalid', hex: string) {
  try {
    return pointFromHex(hex);
  } catch {
    throw new MintRefusal({ kind });
  }
}

function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
