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
import { CURVE_SLICE_MS } from '../limits.ts';

/** Returns the point Y (compressed, hex), which identifies a proof without revealing its secret (NUT-07). */
export function computeY({ secret }: Pick<Proof, 'secret'>): string {
  return hashToCurve(new TextEncoder().encode(secret)).toHex(true);
}

export function hashSecret({ secret }: Pick<Proof, 'secret'>): string {
  return hash('sha256', secret);
}

/** The newest turn of the event loop that a caller waits for. Each turn has one slice, however many tokens arrive. */
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
      sliceEndsAtMs = performance.now() + CURVE_SLICE_MS;
    }
    results.push(map(item, index));
  }
  return results;
}

/** Computes the mint's fee for spending proofs together (NUT-02): the sum of their keysets' fees, rounded up. */
export function computeInputFeeSat(proofs: readonly Proof[], keysets: readonly Keyset[]): number {
  const feeByKeyset = new Map(keysets.map(({ id, inputFeePpk }) => [id, inputFeePpk]));
  const feesPpk = proofs.map(({ id }) => ({ amount: feeByKeyset.get(id) ?? 0 }));
  return Math.ceil(sumAmounts(feesPpk) / 1000);
}

/** Returns when the mint stops accepting proofs of a keyset, in milliseconds since 1970; `Infinity` if never. */
export function getExpiryMs({ finalExpiry }: Pick<Keyset, 'finalExpiry'>): number {
  return finalExpiry ? finalExpiry * 1000 : Number.POSITIVE_INFINITY;
}

/** The two versions of hex ids. NUT-13 derives outputs only for them, and a `cashuB` token cannot contain others. */
const HEX_KEYSET_ID_PATTERN = /^(00[0-9a-f]{14}|01[0-9a-f]{64})$/;

/** Selects the cheapest of the keysets whose new proofs would last longest; null if no keyset is usable. */
export function selectOutputKeyset(keysets: readonly Keyset[], nowMs: number): Keyset | null {
  const usable = keysets
    .filter(({ id, unit, active }) => active && unit === 'sat' && HEX_KEYSET_ID_PATTERN.test(id))
    // Mints may list expired keysets as active.
    .filter((keyset) => getExpiryMs(keyset) > nowMs);
  const lastExpiryMs = Math.max(...usable.map(getExpiryMs));
  const [cheapest = null] = usable
    .filter((keyset) => getExpiryMs(keyset) === lastExpiryMs)
    .sort((a, b) => a.inputFeePpk - b.inputFeePpk);
  return cheapest;
}

/** Checks that a keyset's id is derived from its keys (NUT-02, all versions), so that they cannot change. */
export function verifyKeysetKeys(keyset: Keyset, { keys }: KeysetKeys): boolean {
  return CashuKeyset.verifyKeysetId({
    id: keyset.id,
    keys,
    unit: keyset.unit,
    input_fee_ppk: keyset.inputFeePpk,
    ...(keyset.finalExpiry === undefined ? {} : { final_expiry: keyset.finalExpiry }),
  });
}

/** Splits an amount into as few outputs as possible. Throws if no outputs for the keys add up to the amount. */
export function planOutputs(
  amountSat: number,
  { id, keys }: KeysetKeys,
  { finalExpiry }: Pick<Keyset, 'finalExpiry'>,
): OutputPlan {
  const amounts = splitAmount(amountSat, keys, undefined, 'asc').map((amount) => amount.toNumber());
  return { keysetId: id, amounts, ...(finalExpiry && { finalExpiry }) };
}

/** Derives the outputs of a plan (NUT-13). No plans have outputs in common, because a mint signs an output only once. */
export async function deriveOutputs(
  treasurySecret: string,
  { id: swapId, outputPlans }: { id: string; outputPlans: readonly OutputPlan[] },
  planIndex: number,
) {
  const { keysetId, amounts } = outputPlans[planIndex] as OutputPlan;
  const info = JSON.stringify(['nutpost outputs', swapId, planIndex]);
  const seed = new Uint8Array(hkdfSync('sha256', treasurySecret, '', info, 64));
  const outputs = await mapInSlices(amounts, (amount, counter) =>
    OutputData.createSingleDeterministicData(amount, seed, counter, keysetId),
  );
  const blindedMessages: BlindedMessage[] = outputs.map(
    ({ blindedMessage: { amount, id, B_ } }) => ({ amount: amount.toNumber(), id, B_ }),
  );

  /** Makes proofs of the signatures, in the order of the outputs. Null if one is missing or does not fit its output. */
  async function unblind(
    signatures: readonly BlindSignature[],
    keys: KeysetKeys,
  ): Promise<Proof[] | null> {
    const isForOutput = ({ id, amount }: BlindSignature, index: number) =>
      id === keys.id && id === keysetId && amount === amounts[index];
    if (signatures.length !== outputs.length || !signatures.every(isForOutput)) {
      return null;
    }
    try {
      return await mapInSlices(outputs, (output, index) => {
        const { id, amount, C_ } = signatures[index] as BlindSignature;
        const { secret, C } = output.toProof({ id, C_, amount: Amount.from(amount) }, keys);
        return { id, amount, secret, C };
      });
    } catch {
      return null;
    }
  }

  return { blindedMessages, unblind };
}

export function sumAmounts(items: readonly { amount: number }[]): number {
  return items.reduce((sum, { amount }) => sum + amount, 0);
}
