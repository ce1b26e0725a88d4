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
} from '../../src/mints/ecash.ts';

/** Denominations from 1 to 2^20 sats. */
const KEY_COUNT = 21;

/** A mint's keyset with its private keys: it signs outputs, creates proofs and verifies them. */
export class SigningKeyset {
  readonly keyset: Keyset;
  readonly keys: KeysetKeys;
  readonly #pair: KeysetPair;

  /** @param options.version of the keyset id (NUT-02) */
  constructor(options: { version?: 0 | 1; inputFeePpk?: number; finalExpiry?: number } = {}) {
    const { version = 1, inputFeePpk = 0, finalExpiry } = options;
    this.#pair = createNewMintKeys(KEY_COUNT, undefined, {
      versionByte: version,
      input_fee_ppk: inputFeePpk,
      ...(finalExpiry !== undefined && { expiry: finalExpiry }),
    });
    const { keysetId: id, pubKeys } = this.#pair;
    this.keyset = {
      id,
      unit: 'sat',
      active: true,
      inputFeePpk,
      ...(finalExpiry !== undefined && { finalExpiry }),
    };
    this.keys = { id, keys: serializeMintKeys(pubKeys) };
  }

  /** Signs an output, with a DLEQ proof (NUT-12). */
  sign({ amount, id, B_ }: BlindedMessage): BlindSignature & { dleq: { e: string; s: string } } {
    const point = pointFromHex(B_);
    const key = this.#privateKey(amount);
    const { e, s } = createDLEQProof(point, key);
    const C_ = createBlindSignature(point, key, id).C_.toHex(true);
    return { amount, id, C_, dleq: { e: hex(e), s: hex(s) } };
  }

  /** Creates a wallet's proof of this secret, with a DLEQ proof. */
  createProof(
    amount: number,
    secret: string,
  ): Proof & { dleq: { e: string; s: string; r: string } } {
    const bytes = new TextEncoder().encode(secret);
    const { B_, r } = blindMessage(bytes);
    const message = { amount, id: this.keyset.id, B_: B_.toHex(true) };
    const { C_, dleq } = this.sign(message);
    const wide = Amount.from(amount);
    const { C } = new OutputData({ ...message, amount: wide }, r, bytes).toProof(
      { id: message.id, amount: wide, C_ },
      this.keys,
    );
    const evidence = { ...dleq, r: r.toString(16).padStart(64, '0') };
    return { id: message.id, amount, secret, C, dleq: evidence };
  }

  /** Returns whether the mint would accept the proof. */
  verifyProof({ id, amount, secret, C }: Proof): boolean {
    const proof = { id, secret: new TextEncoder().encode(secret), C: pointFromHex(C) };
    return id === this.keyset.id && verifyUnblindedSignature(proof, this.#privateKey(amount));
  }

  #privateKey(amount: number): Uint8Array {
    const key = this.#pair.privKeys[amount];
    if (key === undefined) {
      throw new Error(`no key for ${amount}`);
    }
    return key;
  }
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
