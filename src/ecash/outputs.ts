import { hkdfSync } from 'node:crypto';
import { Amount, Keyset as CashuKeyset, OutputData, splitAmount } from '@cashu/cashu-ts';
import type {
  BlindedMessage,
  BlindSignature,
  Keyset,
  KeysetKeys,
  OutputPlan,
  Proof,
} from '../domain/ecash.ts';

/** As long as the seed of a BIP-39 phrase, which NUT-13 derives from. */
const SEED_BYTES = 64;

/** The two versions of ids that outputs can be derived for (NUT-13). */
const HEX_KEYSET_ID = /^(00[0-9a-f]{14}|01[0-9a-f]{64})$/;

/**
 * The seed of one try of one operation: whoever has the treasury secret can derive its outputs again.
 *
 * @param operationId never used for another operation
 * @param attempt tries with different amounts need different outputs: a mint signs each once
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
 * Decides in which keyset to be paid: of those that the mint signs sats with, the one that is cheapest
 * to spend later. Base64 ids are passed over: what is of them cannot be put into a `cashuB` token.
 *
 * @returns null where there is none
 */
export function chooseKeyset(keysets: readonly Keyset[]): Keyset | null {
  const usable = keysets.filter(
    ({ id, unit, active }) => active && unit === 'sat' && HEX_KEYSET_ID.test(id),
  );
  const cheapestFirst = usable.sort((a, b) => a.inputFeePpk - b.inputFeePpk);
  return cheapestFirst[0] ?? null;
}

/**
 * Whether a keyset's id was derived from these keys (NUT-02, every version and the base64 ids before
 * them). A mint that gave others could tell payers apart by them.
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
 * Splits an amount into those that a keyset has keys for, as few as there can be, the smallest first:
 * their order says nothing about what they are for.
 *
 * @param amountSat positive
 * @throws Error where the keys do not suffice
 */
export function planOutputs(amountSat: number, keys: KeysetKeys): OutputPlan {
  const amounts = splitAmount(amountSat, keys.keys, undefined, 'asc');
  return { keysetId: keys.id, amounts: amounts.map((amount) => amount.toNumber()) };
}

/**
 * The outputs of a plan: the same seed and plan give the same outputs, each time (NUT-13).
 *
 * @param seed for this plan alone
 * @throws Error where no blinding factor can be derived, which is to be expected once in 2^128 outputs
 */
export function deriveOutputs(seed: Uint8Array, { keysetId, amounts }: OutputPlan): Outputs {
  return new Outputs(
    amounts.map((amount, counter) =>
      OutputData.createSingleDeterministicData(amount, seed, counter, keysetId),
    ),
  );
}

/** What a mint is asked to sign, with what it takes to make proofs of its signatures. */
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
   * Makes proofs of the mint's signatures. Its evidence is checked where there is some (NUT-12) and then
   * left out: it holds the blinding factor, by which the mint could tell where a proof came from.
   *
   * @param signatures in the order of the outputs
   * @param keys of the keyset of the outputs
   * @returns null where one of them is not for its output
   */
  unblind(signatures: readonly BlindSignature[], keys: KeysetKeys): Proof[] | null {
    if (signatures.length !== this.messages.length) {
      return null;
    }
    const proofs = signatures.flatMap((each, index) => this.#unblindOne(index, each, keys) ?? []);
    return proofs.length === signatures.length ? proofs : null;
  }

  /**
   * Puts what a mint restored (NUT-09) into the order of the outputs.
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
