import { z } from 'zod';
import type { BlindedMessage, BlindSignature, Keyset, KeysetKeys, ProofState } from './ecash.ts';

/** An output and the signature that the mint gave for it earlier (NUT-09). */
export interface RestoredOutput {
  B_: string;
  signature: BlindSignature;
}

/** A mint has a few keysets; after many years with several units, it has hundreds. */
const MAX_KEYSETS = 1_000;

/** The powers of two up to 2^63 are 64 keys; a keyset with other amounts may have more. */
const MAX_KEYS = 256;

/** 33 bytes in hex; the oldest ids have 12 characters. */
const MAX_KEYSET_ID_LENGTH = 66;

/** Mints accept this many in one request. */
const MAX_STATES = 1_000;

/** A thousand sat for each proof. It keeps sums of fees exact. */
const MAX_FEE_PPK = 1_000_000;

/** A compressed point of secp256k1 in hex, converted to lower case. */
const POINT = z
  .string()
  .regex(/^0[23][0-9a-fA-F]{64}$/)
  .toLowerCase();

const SCALAR = z.string().regex(/^[0-9a-fA-F]{64}$/);
const KEYSET_ID = z
  .string()
  .max(MAX_KEYSET_ID_LENGTH)
  .regex(/^[A-Za-z0-9+/=_-]+$/);
const AMOUNT = z.int().nonnegative();

const KEYSETS = z.object({ keysets: z.array(z.unknown()) });

const KEYSET = z
  .object({
    id: KEYSET_ID,
    unit: z.string().max(32),
    active: z.boolean(),
    input_fee_ppk: z.int().nonnegative().max(MAX_FEE_PPK).nullish(),
    final_expiry: z.int().nonnegative().nullish(),
  })
  .transform(
    ({ input_fee_ppk, final_expiry, ...keyset }): Keyset => ({
      ...keyset,
      inputFeePpk: input_fee_ppk ?? 0,
      ...(typeof final_expiry === 'number' && { finalExpiry: final_expiry }),
    }),
  );

/** Amounts are text: they reach 2^64 - 1, and the id depends on every key (NUT-02). */
const KEYS = z.object({
  id: KEYSET_ID,
  keys: z
    .record(z.string().regex(/^[1-9]\d{0,19}$/), POINT)
    .refine((keys) => Object.keys(keys).length <= MAX_KEYS),
});

const SIGNATURE = z
  .object({
    id: KEYSET_ID,
    amount: AMOUNT,
    C_: POINT,
    dleq: z.object({ e: SCALAR, s: SCALAR }).optional().catch(undefined),
  })
  .transform(({ dleq, ...signature }): BlindSignature => ({ ...signature, ...(dleq && { dleq }) }));

/** The length of a list is checked before its entries are parsed, because parsing takes time. */
const UNREAD = z.array(z.unknown());

const SIGNATURES = z.array(SIGNATURE);
const SIGNED = z.object({ signatures: UNREAD });

const STATES = z.object({
  states: UNREAD.max(MAX_STATES).pipe(
    z.array(z.object({ Y: z.string(), state: z.enum(['UNSPENT', 'PENDING', 'SPENT']) })),
  ),
});

/** Older versions of cdk-mintd and Nutshell send `promises` instead of `signatures`. */
const RESTORED = z.object({
  outputs: UNREAD,
  signatures: UNREAD.nullish(),
  promises: UNREAD.nullish(),
});
const RESTORED_OUTPUTS = z.array(z.object({ B_: z.string() }));

/** Parses a list of keysets without its malformed entries; null if it is not a list. */
export function parseKeysets(answer: unknown): Keyset[] | null {
  const { data } = KEYSETS.safeParse(answer);
  return (
    data?.keysets
      .slice(0, MAX_KEYSETS)
      .map((entry) => KEYSET.safeParse(entry).data)
      .filter((keyset) => keyset !== undefined) ?? null
  );
}

/** Parses the keys of one keyset; null if the answer does not have them all. */
export function parseKeys(answer: unknown, keysetId: string): KeysetKeys | null {
  const { data } = KEYSETS.safeParse(answer);
  for (const entry of data?.keysets.slice(0, MAX_KEYSETS) ?? []) {
    const keys = KEYS.safeParse(entry).data;
    if (keys?.id === keysetId) {
      return keys;
    }
  }
  return null;
}

/** Parses the signatures for outputs; null unless there is one for each, in the same order. */
export function parseSignatures(
  answer: unknown,
  outputs: readonly BlindedMessage[],
): BlindSignature[] | null {
  const unread = SIGNED.safeParse(answer).data?.signatures;
  if (unread?.length !== outputs.length) {
    return null;
  }
  const signatures = SIGNATURES.safeParse(unread).data ?? null;
  const isOneOnEach = signatures?.every(
    ({ id, amount }, i) => id === outputs[i]?.id && amount === outputs[i].amount,
  );
  return isOneOnEach ? signatures : null;
}

/**
 * Parses the states of proofs.
 *
 * @param ys the requested points, in lower case
 * @returns the state of each; null if one is missing or has two states
 */
export function parseStates(
  answer: unknown,
  ys: readonly string[],
): ReadonlyMap<string, ProofState> | null {
  const reported = new Map<string, ProofState>();
  for (const { Y, state } of STATES.safeParse(answer).data?.states ?? []) {
    const y = Y.toLowerCase();
    if ((reported.get(y) ?? state) !== state) {
      return null;
    }
    reported.set(y, state);
  }
  const states = new Map<string, ProofState>();
  for (const y of ys) {
    const state = reported.get(y);
    if (state === undefined) {
      return null;
    }
    states.set(y, state);
  }
  return states;
}

/**
 * Parses what a mint signed earlier. An empty answer can mean that the money is lost, so the whole answer
 * must be valid.
 *
 * @returns null if any part is malformed or about an output that was not requested
 */
export function parseRestored(
  answer: unknown,
  asked: readonly BlindedMessage[],
): RestoredOutput[] | null {
  const unread = RESTORED.safeParse(answer).data;
  const unreadSignatures = unread?.signatures ?? unread?.promises;
  if (
    unread === undefined ||
    unread.outputs.length > asked.length ||
    unreadSignatures?.length !== unread.outputs.length
  ) {
    return null;
  }
  const outputs = RESTORED_OUTPUTS.safeParse(unread.outputs).data;
  const signatures = SIGNATURES.safeParse(unreadSignatures).data;
  if (outputs === undefined || signatures === undefined) {
    return null;
  }
  const askedByPoint = new Map(asked.map((output) => [output.B_.toLowerCase(), output]));
  const restored: RestoredOutput[] = [];
  for (const [i, signature] of signatures.entries()) {
    const point = outputs[i]?.B_.toLowerCase() ?? '';
    const output = askedByPoint.get(point);
    if (output === undefined || output.id !== signature.id) {
      return null;
    }
    askedByPoint.delete(point);
    restored.push({ B_: output.B_, signature });
  }
  return restored;
}
