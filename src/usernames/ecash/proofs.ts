import { hkdfSync } from 'node:crypto';
import {
  Amount,
  Keyset as CashuKeyset,
  hashToCurve,
  hasValidDleq,
  OutputData,
  splitAmount,
} from '@cashu/cashu-ts';
import type {
  BlindedMessage,
  BlindSignature,
  Keyset,
  KeysetKeys,
  OutputPlan,
  Proof,
} from '../../mints/ecash.ts';

/** Returns the point Y (compressed, hex), which identifies a proof without revealing its secret (NUT-00, NUT-07). */
export function computeY(proof: Pick<Proof, 'secret'>): string {
  return hashToCurve(new TextEncoder().encode(proof.secret)).toHex(true);
}

/**
 * Returns whether a proof has an invalid DLEQ proof (NUT-12). False if it has no DLEQ proof. Blocks the event loop
 * for milliseconds.
 *
 * @param keys the keys of the proof's keyset
 */
export function hasInvalidDleq(proof: Proof, keys: KeysetKeys): boolean {
  if (proof.id !== keys.id) {
    throw new Error('These are not the keys of the keyset of the proof.');
  }
  const isValid =
    proof.dleq === undefined ||
    (Object.hasOwn(keys.keys, proof.amount) &&
      hasValidDleq({ ...proof, amount: Amount.from(proof.amount) }, keys));
  return !isValid;
}

/**
 * Computes the mint's fee for spending proofs together (NUT-02), which is the sum of their keysets' fees, rounded up.
 *
 * @throws Error if `keysets` lacks the keyset of a proof
 */
export function computeInputFeeSat(proofs: readonly Proof[], keysets: readonly Keyset[]): number {
  const feesPpk = proofs.map((proof) => {
    const keyset = keysets.find(({ id }) => id === proof.id);
    if (keyset === undefined) {
      throw new Error(`The fee of the keyset ${proof.id} is not known.`);
    }
    return keyset.inputFeePpk;
  });
  return Math.ceil(feesPpk.reduce((sum, feePpk) => sum + feePpk, 0) / 1000);
}

/** The length of the BIP-39 seeds that NUT-13 uses. */
const SEED_BYTES = 64;

/** The two versions of hex ids, for which NUT-13 derives outputs. */
const HEX_KEYSET_ID_PATTERN = /^(00[0-9a-f]{14}|01[0-9a-f]{64})$/;

/**
 * Derives the seed for the outputs of a swap from the treasury secret, so that the outputs can be derived again.
 *
 * @param planIndex the output plan in the swap. Each plan has its own outputs, because a mint signs an output only
 *   once
 */
export function deriveOutputSeed(treasurySecret: string, swapId: string, planIndex: number) {
  const info = JSON.stringify(['nutpost outputs', swapId, planIndex]);
  return new Uint8Array(hkdfSync('sha256', treasurySecret, '', info, SEED_BYTES));
}

/**
 * Selects the keyset for new proofs: the active keyset in sat with the lowest fee. Excludes keysets with base64 ids,
 * because a `cashuB` token cannot contain them. Returns null if no keyset remains.
 */
export function selectOutputKeyset(keysets: readonly Keyset[]): Keyset | null {
  const usable = keysets.filter(
    ({ id, unit, active }) => active && unit === 'sat' && HEX_KEYSET_ID_PATTERN.test(id),
  );
  return usable.sort((a, b) => a.inputFeePpk - b.inputFeePpk)[0] ?? null;
}

/**
 * Checks that a keyset's id is derived from its keys (NUT-02, all versions). Otherwise a mint could track a client by
 * sending different keys to each client.
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
 * Splits a positive amount into as few outputs as possible, the smallest first. The keyset has a key for each amount.
 *
 * @throws Error if the keys cannot make up the amount
 */
export function planOutputs(amountSat: number, keys: KeysetKeys): OutputPlan {
  const amounts = splitAmount(amountSat, keys.keys, undefined, 'asc');
  return { keysetId: keys.id, amounts: amounts.map((amount) => amount.toNumber()) };
}

/**
 * Derives the outputs of a plan (NUT-13). The same seed and plan always result in the same outputs.
 *
 * @param seed must not be used for another plan
 */
export function deriveOutputs(seed: Uint8Array, { keysetId, amounts }: OutputPlan): BlindedOutputs {
  return new BlindedOutputs(
    amounts.map((amount, counter) =>
      OutputData.createSingleDeterministicData(amount, seed, counter, keysetId),
    ),
  );
}

/** Contains blinded messages for a mint to sign, and the secrets that turn the mint's signatures into proofs. */
export class BlindedOutputs {
  readonly blindedMessages: readonly BlindedMessage[];
  readonly #outputData: readonly OutputData[];

  constructor(outputData: readonly OutputData[]) {
    this.blindedMessages = outputData.map(({ blindedMessage: { amount, id, B_ } }) => ({
      amount: amount.toNumber(),
      id,
      B_,
    }));
    this.#outputData = outputData;
  }

  /**
   * Turns the mint's signatures into proofs. Checks the DLEQ proofs of the signatures that have one (NUT-12). Omits
   * them from the result, because their blinding factors would let the mint link the proofs to this swap.
   *
   * @param signatures in the order of the outputs
   * @returns null if a signature is wrong
   */
  unblind(signatures: readonly BlindSignature[], keys: KeysetKeys): Proof[] | null {
    if (signatures.length !== this.blindedMessages.length) {
      return null;
    }
    const proofs = signatures.flatMap(
      (each, index) => this.#unblindSignature(index, each, keys) ?? [],
    );
    return proofs.length === signatures.length ? proofs : null;
  }

  /**
   * Sorts the signatures that a mint restored (NUT-09) in the order of the outputs.
   *
   * @returns null if a signature is missing. An honest mint signs either all outputs of a swap or no output
   */
  orderSignatures(
    restored: readonly { B_: string; signature: BlindSignature }[],
  ): BlindSignature[] | null {
    const byOutput = new Map(restored.map(({ B_, signature }) => [B_, signature]));
    const signatures = this.blindedMessages.flatMap(({ B_ }) => byOutput.get(B_) ?? []);
    return signatures.length === this.blindedMessages.length ? signatures : null;
  }

  #unblindSignature(index: number, signature: BlindSignature, keys: KeysetKeys): Proof | null {
    const outputData = this.#outputData[index];
    const message = this.blindedMessages[index];
    const { amount, id, C_, dleq } = signature;
    const isForThisOutput = id === keys.id && id === message?.id && amount === message.amount;
    if (outputData === undefined || !isForThisOutput) {
      return null;
    }
    try {
      const proof = outputData.toProof(
        { id, C_, amount: Amount.from(amount), ...(dleq && { dleq }) },
        keys,
      );
      return { id, amount, secret: proof.secret, C: proof.C };
    } catch {
      // The keyset has no such amount, a point is not on the curve, or the DLEQ is invalid.
      return null;
    }
  }
}

export function sumAmounts(items: readonly { amount: number }[]): number {
  return items.reduce((sum, { amount }) => sum + amount, 0);
}
