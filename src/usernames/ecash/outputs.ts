import { hkdfSync } from 'node:crypto';
import { Amount, Keyset as CashuKeyset, OutputData, splitAmount } from '@cashu/cashu-ts';
import type {
  BlindedMessage,
  BlindSignature,
  Keyset,
  KeysetKeys,
  OutputPlan,
  Proof,
} from '../../mints/ecash.ts';

/** The length of a BIP-39 seed, from which NUT-13 derives. */
const SEED_BYTES = 64;

/** The two versions of keyset ids for which outputs can be derived (NUT-13). */
const HEX_KEYSET_ID = /^(00[0-9a-f]{14}|01[0-9a-f]{64})$/;

/**
 * Derives the seed of one attempt of an operation, from which its outputs can be derived again.
 *
 * @param operationId unique
 * @param attempt attempts with different amounts need different outputs: a mint signs each output once
 */
export function operationSeed(
  treasurySecret: string,
  operationId: string,
  attempt: number,
): Uint8Array {
  const info = JSON.stringify(['nutpost outputs', operationId, attempt]);
  return new Uint8Array(hkdfSync('sha256', treasurySecret, '', info, SEED_BYTES));
}

/**
 * Chooses the keyset of new proofs: of the active ones in sat, the one with the lowest fee. Base64 ids are excluded,
 * because a `cashuB` token cannot contain them.
 *
 * @returns null if there is none
 */
export function chooseKeyset(keysets: readonly Keyset[]): Keyset | null {
  const usable = keysets.filter(
    ({ id, unit, active }) => active && unit === 'sat' && HEX_KEYSET_ID.test(id),
  );
  const cheapestFirst = usable.sort((a, b) => a.inputFeePpk - b.inputFeePpk);
  return cheapestFirst[0] ?? null;
}

/**
 * Whether a keyset's id was derived from these keys (NUT-02: every version, and the older base64 ids). A mint could
 * track payers by keys that it gives to one of them only.
 */
export function verifyKeysetKeys(keyset: Keyset, keys: KeysetKeys): boolean {
  return (
    keyset.id === keys.id &&
    CashuKeyset.verifyKeysetId({
      id: keys.id,
      keys: keys.keys,
      unit: keyset.unit,
      input_fee_ppk: keyset.inputFeePpk,
      ...(keyset.finalExpiry === undefined ? {} : { final_expiry: keyset.finalExpiry }),
    })
  );
}

/**
 * Splits an amount into as few amounts as possible for which a keyset has keys, the smallest first.
 *
 * @param amountSat positive
 * @throws Error if the keys do not suffice
 */
export function planOutputs(amountSat: number, keys: KeysetKeys): OutputPlan {
  const amounts = splitAmount(amountSat, keys.keys, undefined, 'asc');
  return { keysetId: keys.id, amounts: amounts.map((amount) => amount.toNumber()) };
}

/**
 * Derives the outputs of a plan. The same seed and plan always give the same outputs (NUT-13).
 *
 * @param seed for this plan only
 * @throws Error if no blinding factor can be derived, which happens once in 2^128 outputs
 */
export function deriveOutputs(seed: Uint8Array, { keysetId, amounts }: OutputPlan): Outputs {
  return new Outputs(
    amounts.map((amount, counter) =>
      OutputData.createSingleDeterministicData(amount, seed, counter, keysetId),
    ),
  );
}

/** Blinded messages for a mint to sign, with the secrets that turn its signatures into proofs. */
export class Outputs {
  readonly messages: readonly BlindedMessage[];
  readonly #secrets: readonly OutputData[];

  constructor(secrets: readonly OutputData[]) {
    this.messages = secrets.map(({ blindedMessage: { amount, id, B_ } }) => ({
      amount: amount.toNumber(),
      id,
      B_,
    }));
    this.#secrets = secrets;
  }

  /**
   * Makes proofs of the mint's signatures. Checks the DLEQ of each signature that has one (NUT-12) and leaves it out of
   * the proof: it contains the blinding factor, by which the mint could link the proof to this swap.
   *
   * @param signatures in the order of the outputs
   * @param keys of the keyset of the outputs
   * @returns null if one of them is not for its output
   */
  unblind(signatures: readonly BlindSignature[], keys: KeysetKeys): Proof[] | null {
    if (signatures.length !== this.messages.length) {
      return null;
    }
    const proofs = signatures.flatMap((each, index) => this.#unblindOne(index, each, keys) ?? []);
    return proofs.length === signatures.length ? proofs : null;
  }

  /**
   * Puts the signatures that a mint restored (NUT-09) into the order of the outputs.
   *
   * @returns null if an output is missing: a mint signs all outputs of a swap or none
   */
  match(restored: readonly { B_: string; signature: BlindSignature }[]): BlindSignature[] | null {
    const byOutput = new Map(restored.map(({ B_, signature }) => [B_, signature]));
    const signatures = this.messages.flatMap(({ B_ }) => byOutput.get(B_) ?? []);
    return signatures.length === this.messages.length ? signatures : null;
  }

  #unblindOne(index: number, signature: BlindSignature, keys: KeysetKeys): Proof | null {
    const message = this.messages[index];
    const secret = this.#secrets[index];
    const { amount, id } = signature;
    const isForOutput =
      message !== undefined &&
      id === message.id &&
      id === keys.id &&
      amount === message.amount &&
      amount > 0 &&
      Object.hasOwn(keys.keys, amount);
    if (secret === undefined || !isForOutput) {
      return null;
    }
    const { C_, dleq } = signature;
    try {
      const proof = secret.toProof(
        { id, C_, amount: Amount.from(amount), ...(dleq && { dleq }) },
        keys,
      );
      return { id, amount, secret: proof.secret, C: proof.C };
    } catch {
      // A point is not on the curve, or the evidence is false.
      return null;
    }
  }
}
