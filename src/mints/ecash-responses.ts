import { z } from 'zod';
import type { BlindedMessage, BlindSignature, Keyset, KeysetKeys, ProofState } from './ecash.ts';

/** A mint has a few keysets; after many years with several units, it has hundreds. */
const MAX_KEYSETS = 1_000;

/** The powers of two up to 2^63 are 64 keys; a keyset with other amounts may have more. */
const MAX_KEYS = 256;

/** 33 bytes in hex; the oldest ids have 12 characters. */
const MAX_KEYSET_ID_LENGTH = 66;

/** The mints' own limit for one request. */
const MAX_PROOF_STATES = 1_000;

/** A thousand sats per proof; keeps sums of fees exact. */
const MAX_FEE_PPK = 1_000_000;

/** A compressed point of secp256k1 in hex, converted to lower case. */
const pointSchema = z
  .string()
  .regex(/^0[23][0-9a-fA-F]{64}$/)
  .toLowerCase();

const scalarSchema = z.string().regex(/^[0-9a-fA-F]{64}$/);
const keysetIdSchema = z
  .string()
  .max(MAX_KEYSET_ID_LENGTH)
  .regex(/^[A-Za-z0-9+/=_-]+$/);
const amountSchema = z.int().nonnegative();

const keysetsResponseSchema = z.object({ keysets: z.array(z.unknown()) });

const keysetSchema = z
  .object({
    id: keysetIdSchema,
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
const keysetKeysSchema = z.object({
  id: keysetIdSchema,
  keys: z
    .record(z.string().regex(/^[1-9]\d{0,19}$/), pointSchema)
    .refine((keys) => Object.keys(keys).length <= MAX_KEYS),
});

const signatureSchema = z
  .object({
    id: keysetIdSchema,
    amount: amountSchema,
    C_: pointSchema,
    dleq: z.object({ e: scalarSchema, s: scalarSchema }).optional().catch(undefined),
  })
  .transform(({ dleq, ...signature }): BlindSignature => ({ ...signature, ...(dleq && { dleq }) }));

/** The length of a list is checked before its entries are parsed, which takes time. */
const unvalidatedListSchema = z.array(z.unknown());

const signaturesSchema = z.array(signatureSchema);
const swapResponseSchema = z.object({ signatures: unvalidatedListSchema });

const checkStateResponseSchema = z.object({
  states: unvalidatedListSchema
    .max(MAX_PROOF_STATES)
    .pipe(z.array(z.object({ Y: z.string(), state: z.enum(['UNSPENT', 'PENDING', 'SPENT']) }))),
});

/** Older versions of cdk-mintd and Nutshell send `promises` instead of `signatures`. */
const restoreResponseSchema = z.object({
  outputs: unvalidatedListSchema,
  signatures: unvalidatedListSchema.nullish(),
  promises: unvalidatedListSchema.nullish(),
});
const restoredPairsSchema = z.array(
  z.tuple([z.object({ B_: z.string().toLowerCase() }), signatureSchema]),
);

/** Parses a list of keysets, skipping malformed entries; null if it is not a list. */
export function parseKeysets(body: unknown): Keyset[] | null {
  const entries = keysetsResponseSchema.safeParse(body).data?.keysets.slice(0, MAX_KEYSETS);
  return entries?.flatMap((entry) => keysetSchema.safeParse(entry).data ?? []) ?? null;
}

/** Parses the keys of one keyset; null if they are missing or malformed. */
export function parseKeys(body: unknown, keysetId: string): KeysetKeys | null {
  const entries = keysetsResponseSchema.safeParse(body).data?.keysets.slice(0, MAX_KEYSETS);
  const parsed = entries?.map((entry) => keysetKeysSchema.safeParse(entry).data);
  return parsed?.find((keys) => keys?.id === keysetId) ?? null;
}

/** Parses the signatures for outputs; null unless there is one for each, in the same order. */
export function parseSignatures(
  body: unknown,
  outputs: readonly BlindedMessage[],
): BlindSignature[] | null {
  const unvalidated = swapResponseSchema.safeParse(body).data?.signatures;
  if (unvalidated?.length !== outputs.length) {
    return null;
  }
  const signatures = signaturesSchema.safeParse(unvalidated).data ?? null;
  const hasMatchingOutputs = signatures?.every(
    ({ id, amount }, i) => id === outputs[i]?.id && amount === outputs[i].amount,
  );
  return hasMatchingOutputs ? signatures : null;
}

/** Parses the states of proofs by Y, in lower case; null if one is missing or has two states. */
export function parseProofStates(
  body: unknown,
  requestedYs: readonly string[],
): ReadonlyMap<string, ProofState> | null {
  const requested = new Set(requestedYs);
  const states = new Map<string, ProofState>();
  for (const { Y, state } of checkStateResponseSchema.safeParse(body).data?.states ?? []) {
    const y = Y.toLowerCase();
    if ((states.get(y) ?? state) !== state) {
      return null;
    }
    if (requested.has(y)) {
      states.set(y, state);
    }
  }
  return states.size === requested.size ? states : null;
}

/**
 * Parses the outputs that a mint signed earlier; null if any part is malformed or about an output that was not
 * requested. It is strict because an empty result can mean that the money is lost.
 */
export function parseRestoredOutputs(
  body: unknown,
  requested: readonly BlindedMessage[],
): { B_: string; signature: BlindSignature }[] | null {
  const response = restoreResponseSchema.safeParse(body).data;
  const outputs = response?.outputs ?? [];
  const signatures = response?.signatures ?? response?.promises;
  if (outputs.length > requested.length || signatures?.length !== outputs.length) {
    return null;
  }
  const pairs = restoredPairsSchema.safeParse(outputs.map((output, i) => [output, signatures[i]]));
  if (!pairs.success) {
    return null;
  }
  const requestedByPoint = new Map(requested.map((output) => [output.B_.toLowerCase(), output]));
  const restored = [];
  for (const [{ B_: point }, signature] of pairs.data) {
    const output = requestedByPoint.get(point);
    if (output?.id !== signature.id) {
      return null;
    }
    requestedByPoint.delete(point);
    restored.push({ B_: output.B_, signature });
  }
  return restored;
}
