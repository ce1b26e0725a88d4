import {
  createBlindSignature,
  createDLEQProof,
  createNewMintKeys,
  hashToCurve,
  type KeysetPair,
  pointFromHex,
  serializeMintKeys,
  verifyUnblindedSignature,
} from '@cashu/cashu-ts';
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
}

/** The mint's signature on an output, with its proof (NUT-00, NUT-12). */
export interface OutputSignature {
  id: string;
  amount: number;
  C_: string;
  dleq: { e: string; s: string };
}

/** Denominations from 1 to 2^32 sats, 43 bitcoin: more than any test pays. */
const KEY_COUNT = 33;

/**
 * The mint's keys, and its memory of what it has signed and what has been spent. One keyset, made
 * at start, in sats. Spending conditions (NUT-10) are not known here, and not advertised.
 */
export class TestMintLedger {
  readonly #keyset: KeysetPair;
  readonly #inputFeePpk: number;
  readonly #signedOutputs = new Set<string>();
  /** Spent proofs by their Y (NUT-07), in hex. */
  readonly #spent = new Set<string>();

  /** @param inputFeePpk the fee for each input of a swap, in thousandths of a sat (NUT-02) */
  constructor(inputFeePpk: number) {
    this.#inputFeePpk = inputFeePpk;
    this.#keyset = createNewMintKeys(KEY_COUNT, undefined, { input_fee_ppk: inputFeePpk });
  }

  /** The keyset as `GET /v1/keysets` lists it (NUT-02). */
  get keyset() {
    const { keysetId } = this.#keyset;
    return { id: keysetId, unit: 'sat', active: true, input_fee_ppk: this.#inputFeePpk };
  }

  /** The keyset with its public keys, as `GET /v1/keys` gives it (NUT-01). */
  get keysetWithKeys() {
    return { ...this.keyset, keys: serializeMintKeys(this.#keyset.pubKeys) };
  }

  /** Signs outputs, all or none; each is signed at most once. */
  sign(outputs: Output[]): OutputSignature[] {
    this.#refuseUnlessNew(outputs);
    const signatures = outputs.map((output) => this.#signOne(output));
    for (const { B_ } of outputs) {
      this.#signedOutputs.add(B_);
    }
    return signatures;
  }

  /** Spends proofs for new signatures (NUT-03): the outputs are the inputs less the fee. */
  swap(inputs: Input[], outputs: Output[]): OutputSignature[] {
    const spentYs = inputs.map((input) => this.#verified(input));
    if (new Set(spentYs).size < inputs.length) {
      throw new MintRefusal({ kind: 'duplicate_inputs' });
    }
    if (sumOfAmounts(inputs) - this.#feeSat(inputs.length) !== sumOfAmounts(outputs)) {
      throw new MintRefusal({ kind: 'unbalanced' });
    }
    const signatures = this.sign(outputs);
    for (const y of spentYs) {
      this.#spent.add(y);
    }
    return signatures;
  }

  /** Whether a proof was spent, by its Y in hex (NUT-07). */
  isSpent(y: string): boolean {
    return this.#spent.has(y);
  }

  #feeSat(inputCount: number): number {
    return Math.ceil((inputCount * this.#inputFeePpk) / 1000);
  }

  #signOne({ amount, id, B_ }: Output): OutputSignature {
    const secretKey = this.#secretKeyFor(id, amount);
    const point = pointOr('output_invalid', B_);
    const { C_ } = createBlindSignature(point, secretKey, id);
    const { e, s } = createDLEQProof(point, secretKey);
    return { id, amount, C_: C_.toHex(true), dleq: { e: toHex(e), s: toHex(s) } };
  }

  /** Checks that a proof is this mint's and unspent; answers its Y. */
  #verified({ amount, id, secret, C }: Input): string {
    const secretKey = this.#secretKeyFor(id, amount);
    const secretBytes = new TextEncoder().encode(secret);
    const proof = { id, secret: secretBytes, C: pointOr('proof_invalid', C) };
    if (!verifyUnblindedSignature(proof, secretKey)) {
      throw new MintRefusal({ kind: 'proof_invalid' });
    }
    const y = hashToCurve(secretBytes).toHex(true);
    if (this.#spent.has(y)) {
      throw new MintRefusal({ kind: 'proof_spent' });
    }
    return y;
  }

  #secretKeyFor(keysetId: string, amount: number): Uint8Array {
    if (keysetId !== this.#keyset.keysetId) {
      throw new MintRefusal({ kind: 'keyset_unknown' });
    }
    const secretKey = this.#keyset.privKeys[amount];
    if (secretKey === undefined) {
      throw new MintRefusal({ kind: 'amount_out_of_range' });
    }
    return secretKey;
  }

  #refuseUnlessNew(outputs: Output[]): void {
    if (new Set(outputs.map(({ B_ }) => B_)).size < outputs.length) {
      throw new MintRefusal({ kind: 'duplicate_outputs' });
    }
    if (outputs.some(({ B_ }) => this.#signedOutputs.has(B_))) {
      throw new MintRefusal({ kind: 'output_already_signed' });
    }
  }
}

/** The sum in sats. */
export function sumOfAmounts(parts: { amount: number }[]): number {
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
