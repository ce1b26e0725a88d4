import {
  Amount,
  blindMessage,
  createBlindSignature,
  createDLEQProof,
  createNewMintKeys,
  type KeysetPair,
  OutputData,
  pointFromHex,
  serializeMintKeys,
  verifyUnblindedSignature,
} from '@cashu/cashu-ts';
import type {
  BlindedMessage,
  BlindSignature,
  Keyset,
  KeysetKeys,
  Proof,
} from '../../../src/mints/ecash.ts';

/** Denominations from 1 to 2^20 sats. */
const KEY_COUNT = 21;

export class FakeMintKeyset {
  readonly keyset: Keyset;
  readonly keys: KeysetKeys;
  readonly #keyPairs: KeysetPair;

  constructor(options: { version?: 0 | 1; inputFeePpk?: number; finalExpiry?: number } = {}) {
    const { version = 1, inputFeePpk = 0, finalExpiry } = options;
    this.#keyPairs = createNewMintKeys(KEY_COUNT, undefined, {
      versionByte: version,
      input_fee_ppk: inputFeePpk,
      ...(finalExpiry !== undefined && { expiry: finalExpiry }),
    });
    const { keysetId: id, pubKeys } = this.#keyPairs;
    this.keyset = {
      id,
      unit: 'sat',
      active: true,
      inputFeePpk,
      ...(finalExpiry !== undefined && { finalExpiry }),
    };
    this.keys = { id, keys: serializeMintKeys(pubKeys) };
  }

  sign({ amount, id, B_ }: BlindedMessage): BlindSignature & { dleq: { e: string; s: string } } {
    const point = pointFromHex(B_);
    const key = this.#privateKey(amount);
    const { e, s } = createDLEQProof(point, key);
    const C_ = createBlindSignature(point, key, id).C_.toHex(true);
    return { amount, id, C_, dleq: { e: hex(e), s: hex(s) } };
  }

  createProof(
    amount: number,
    secret: string,
  ): Proof & { dleq: { e: string; s: string; r: string } } {
    const { id } = this.keyset;
    const secretBytes = new TextEncoder().encode(secret);
    const { B_, r } = blindMessage(secretBytes);
    const output = { amount, id, B_: B_.toHex(true) };
    const { C_, dleq } = this.sign(output);
    // The amount in the type that cashu-ts expects.
    const cashuAmount = Amount.from(amount);
    const { C } = new OutputData({ ...output, amount: cashuAmount }, r, secretBytes).toProof(
      { id, amount: cashuAmount, C_ },
      this.keys,
    );
    return { id, amount, secret, C, dleq: { ...dleq, r: r.toString(16).padStart(64, '0') } };
  }

  verifyProof({ id, amount, secret, C }: Proof): boolean {
    const proof = { id, secret: new TextEncoder().encode(secret), C: pointFromHex(C) };
    return id === this.keyset.id && verifyUnblindedSignature(proof, this.#privateKey(amount));
  }

  #privateKey(amount: number): Uint8Array {
    const key = this.#keyPairs.privKeys[amount];
    if (key === undefined) {
      throw new Error(`the keyset has no key for the amount ${amount}`);
    }
    return key;
  }
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
