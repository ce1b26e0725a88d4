import { hash, hkdfSync } from 'node:crypto';
import { setImmediate as nextEventLoopTurn } from 'node:timers/promises';
import {
  Amount,
  Keyset as CashuKeyset,
  hashToCurve,
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
import { MAX_SLICE_MS } from '../limits.ts';

/** Returns the point Y (compressed, hex), which identifies a proof without revealing its secret (NUT-00, NUT-07). */
export function computeY(proof: Pick<Proof, 'secret'>): string {
  return hashToCurve(new TextEncoder().encode(proof.secret)).toHex(true);
}

/** Returns the SHA-256 of a proof's secret in hex. It identifies the proof too, and takes 1 % of the time of its Y. */
export function hashSecret({ secret }: Pick<Proof, 'secret'>): string {
  return hash('sha256', secret);
}

/** Callers take turns: one turn of the event loop contains one slice of one caller, however many tokens arrive. */
let latestTurn: Promise<void> = Promise.resolve();

/** Maps items with curve operations, in short slices between which the event loop does other work. */
export async function mapInSlices<T, R>(
  items: readonly T[],
  map: (item: T, index: number) => R,
): Promise<R[]> {
  const results: R[] = [];
  let sliceEndsAtMs = 0;
  for (const [index, item] of items.entries()) {
    if (performance.now() >= sliceEndsAtMs) {
      latestTurn = latestTurn.then(() => nextEventLoopTurn());
      await latestTurn;
      sliceEndsAtMs = performance.now() + MAX_SLICE_MS;
    }
    results.push(map(item, index));
  }
  return results;
}

/**
 * Computes the mint's fee for spending proofs together (NUT-02), which is the sum of their keysets' fees, rounded up.
 *
 * @param keysets must include those of the proofs
 */
export function computeInputFeeSat(proofs: readonly Proof[], keysets: readonly Keyset[]): number {
  const feeByKeyset = new Map(keysets.map(({ id, inputFeePpk }) => [id, inputFeePpk]));
  return Math.ceil(proofs.reduce((sum, { id }) => sum + (feeByKeyset.get(id) ?? 0), 0) / 1000);
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

/** Returns when the mint stops accepting proofs of a keyset, in milliseconds since 1970; `Infinity` if never. */
export function getExpiryMs({ finalExpiry }: Pick<Keyset, 'finalExpiry'>): number {
  return finalExpiry ? finalExpiry * 1000 : Number.POSITIVE_INFINITY;
}

/**
 * Selects the keyset for new proofs: the active keyset in sat that lasts longest, or else has the lowest fee. Excludes
 * keysets with base64 ids, because a `cashuB` token cannot contain them, and expired ones, which mints may list as
 * active. Returns null if no keyset remains.
 *
 * @param rejectedIds keysets that the mint has rejected; selected only if there is no other
 */
export function selectOutputKeyset(
  keysets: readonly Keyset[],
  nowMs: number,
  rejectedIds: readonly string[] = [],
): Keyset | null {
  const usable = keysets
    .filter(({ id, unit, active }) => active && unit === 'sat' && HEX_KEYSET_ID_PATTERN.test(id))
    .filter((keyset) => getExpiryMs(keyset) > nowMs);
  const isRejected = ({ id }: Keyset) => Number(rejectedIds.includes(id));
  const compare = (a: Keyset, b: Keyset) => {
    const [expiryMs, otherExpiryMs] = [getExpiryMs(a), getExpiryMs(b)];
    const lifetimeOrder = expiryMs === otherExpiryMs ? 0 : otherExpiryMs - expiryMs;
    return isRejected(a) - isRejected(b) || lifetimeOrder || a.inputFeePpk - b.inputFeePpk;
  };
  return usable.sort(compare)[0] ?? null;
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
export function planOutputs(
  amountSat: number,
  keys: KeysetKeys,
  { finalExpiry }: Pick<Keyset, 'finalExpiry'> = {},
): OutputPlan {
  const amounts = splitAmount(amountSat, keys.keys, undefined, 'asc');
  return {
    keysetId: keys.id,
    amounts: amounts.map((amount) => amount.toNumber()),
    ...(finalExpiry && { finalExpiry }),
  };
}

/**
 * Derives the outputs of a plan (NUT-13). The same seed and plan always result in the same outputs.
 *
 * @param seed must not be used for another plan
 */
export async function deriveOutputs(
  seed: Uint8Array,
  { keysetId, amounts }: OutputPlan,
): Promise<BlindedOutputs> {
  return new BlindedOutputs(
    await mapInSlices(amounts, (amount, counter) =>
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
   * Turns the mint's signatures into proofs. Ignores their DLEQ proofs (NUT-12): they are optional, and the operator
   * chose the mint.
   *
   * @param signatures in the order of the outputs
   * @returns null if a signature is not a point, or is for another output
   */
  async unblind(signatures: readonly BlindSignature[], keys: KeysetKeys): Promise<Proof[] | null> {
    const isForOutput = ({ id, amount }: BlindSignature, index: number) => {
      const message = this.blindedMessages[index];
      return id === keys.id && id === message?.id && amount === message.amount;
    };
    if (signatures.length !== this.blindedMessages.length || !signatures.every(isForOutput)) {
      return null;
    }
    const proofs = await mapInSlices(signatures, (signature, index) =>
      this.#unblindSignature(index, signature, keys),
    );
    return proofs.every((proof) => proof !== null) ? proofs : null;
  }

  /**
   * Sorts the signatures that a mint restored (NUT-09) in the order of the outputs. Returns null if a signature is
   * missing. An honest mint signs either all outputs of a swap or no output.
   */
  orderSignatures(
    restored: readonly { B_: string; signature: BlindSignature }[],
  ): BlindSignature[] | null {
    const byOutput = new Map(restored.map(({ B_, signature }) => [B_, signature]));
    const signatures = this.blindedMessages.flatMap(({ B_ }) => byOutput.get(B_) ?? []);
    return signatures.length === this.blindedMessages.length ? signatures : null;
  }

  #unblindSignature(
    index: number,
    { amount, id, C_ }: BlindSignature,
    keys: KeysetKeys,
  ): Proof | null {
    try {
      const proof = this.#outputData[index]?.toProof({ id, C_, amount: Amount.from(amount) }, keys);
      return proof === undefined ? null : { id, amount, secret: proof.secret, C: proof.C };
    } catch {
      // The keyset has no such amount, or a point is not on the curve.
      return null;
    }
  }
}

export function sumAmounts(items: readonly { amount: number }[]): number {
  return items.reduce((sum, { amount }) => sum + amount, 0);
}
