import { z } from 'zod';
import type {
  BlindedMessage,
  BlindSignature,
  Keyset,
  KeysetKeys,
  ProofState,
} from '../domain/ecash.ts';

/** A signature that a mint gave before, and what it was asked to sign (NUT-09). */
export interface RestoredOutput {
  B_: string;
  signature: BlindSignature;
}

/** A mint has a handful of keysets, and one with many years and units has some hundreds. */
const MAX_KEYSETS = 1_000;

/** Powers of two up to 2^63 are 64; a keyset with other amounts may have some more. */
const MAX_KEYS = 256;

/** 33 bytes in hex are 66 characters, and the oldest ids 12. */
const MAX_KEYSET_ID_LENGTH = 66;

/** Mints take so many questions at a time. */
const MAX_STATES = 1_000;

/** A thousand sat for each proof, which nobody asks for; it keeps sums of fees exact. */
const MAX_FEE_PPK = 1_000_000;

/** A compressed point of secp256k1 in hex, here always in lower case. */
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

/** Up to 2^64 - 1, which is more than a number holds exactly: every key counts for the id (NUT-02). */
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

/**
 * Of a list it is known how long it may be; its entries are looked at after that, because each one
 * takes time.
 */
const UNREAD = z.array(z.unknown());

const SIGNATURES = z.array(SIGNATURE);
const SIGNED = z.object({ signatures: UNREAD });

const STATES = z.object({
  states: UNREAD.max(MAX_STATES).pipe(
    z.array(z.object({ Y: z.string(), state: z.enum(['UNSPENT', 'PENDING', 'SPENT']) })),
  ),
});

/** cdk-mintd and Nutshell had `promises` before `signatures`. */
const RESTORED = z.object({
  outputs: UNREAD,
  signatures: UNREAD.nullish(),
  promises: UNREAD.nullish(),
});
const RESTORED_OUTPUTS = z.array(z.object({ B_: z.string() }));

/** Reads a list of keysets; malformed entries are left out. Null where it is no list. */
export function parseKeysets(answer: unknown): Keyset[] | null {
  const { data } = KEYSETS.safeParse(answer);
  return (
    data?.keysets
      .slice(0, MAX_KEYSETS)
      .map((entry) => KEYSET.safeParse(entry).data)
      .filter((keyset) => keyset !== undefined) ?? null
  );
}

/** Reads the keys of one keyset, in full; null where the answer has none for it. */
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

/** Reads the signatures on outputs, one on each and in their order; null where they are not that. */
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
 * Reads the state of proofs.
 *
 * @param ys those that were asked for, in lower case
 * @returns by each of them; null where one is missing, or has two states
 */
export function parseStates(
  answer: unknown,
  ys: readonly string[],
): ReadonlyMap<string, ProofState> | null {
  const said = new Map<string, ProofState>();
  for (const { Y, state } of STATES.safeParse(answer).data?.states ?? []) {
    const y = Y.toLowerCase();
    if ((said.get(y) ?? state) !== state) {
      return null;
    }
    said.set(y, state);
  }
  const states = new Map<string, ProofState>();
  for (const y of ys) {
    const state = said.get(y);
    if (state === undefined) {
      return null;
    }
    states.set(y, state);
  }
  return states;
}

/**
 * Reads what a mint signed before. That it signed nothing can mean that somebody else has the money,
 * so it is only read from an answer that is right in every part.
 *
 * @returns null where it is not, or speaks of outputs that were not asked for
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
