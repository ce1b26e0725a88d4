import { z } from 'zod';
import type {
  BlindedMessage,
  BlindSignature,
  Keyset,
  KeysetKeys,
  Proof,
  ProofState,
} from './ecash.ts';
import {
  type FailedResult,
  type MintRequest,
  type MintRequestContext,
  sendMintRequest,
} from './mint-client.ts';
import type { RequestResult } from './route-rate-limiter.ts';
import { parseSwapRejection, type SwapRejectionReason } from './swap-rejection.ts';
import { wholeNumberSchema } from './whole-number-schema.ts';

export interface SwapOptions {
  maxWaitMs?: number;
  addressGroup?: string;
}

/**
 * Sends the requests that swap and restore ecash (NUT-01, NUT-02, NUT-03, NUT-07, NUT-09). Mint URLs are
 * normalised. If the result of a swap is `unavailable` without `isUnsent`, the mint may have executed the swap.
 */
export class EcashClient {
  readonly #deps: MintRequestContext;

  constructor(deps: MintRequestContext) {
    this.#deps = deps;
  }

  /** Reads the keysets of a mint, including inactive ones (NUT-02). */
  readKeysets(mintUrl: string) {
    return this.#send({
      mintUrl,
      route: 'keys',
      path: '/v1/keysets',
      maxResponseBytes: MAX_KEYSETS_RESPONSE_BYTES,
      parse: parseKeysets,
    });
  }

  /**
   * Reads the keys of one keyset (NUT-01). The caller verifies them against its id.
   *
   * @param keysetId hex
   */
  readKeys(mintUrl: string, keysetId: string) {
    return this.#send({
      mintUrl,
      route: 'keys',
      path: `/v1/keys/${encodeURIComponent(keysetId)}`,
      maxResponseBytes: MAX_BASE_RESPONSE_BYTES,
      parse: (body) => parseKeys(body, keysetId),
    });
  }

  /** Returns how long a swap for a buyer would wait for the rate limit of the mint; 0 if it can be sent. */
  getSwapWaitMs(mintUrl: string, addressGroup: string): number {
    return this.#deps.limiter?.getWaitMs(mintUrl, 'swap', addressGroup) ?? 0;
  }

  /**
   * Swaps proofs for new ones (NUT-03).
   *
   * @param options.maxWaitMs how long to wait for the mint's rate limit; by default, as long as a payer
   * @param options.addressGroup of the buyer who waits; by default none
   */
  swap(
    mintUrl: string,
    inputs: readonly Proof[],
    outputs: readonly BlindedMessage[],
    options: SwapOptions = {},
  ) {
    type Rejection = { outcome: 'rejected'; reason: SwapRejectionReason };
    return this.#send<NonNullable<ReturnType<typeof parseSignatures>> | Rejection>({
      mintUrl,
      route: 'swap',
      path: '/v1/swap',
      body: { inputs, outputs },
      maxResponseBytes: MAX_BASE_RESPONSE_BYTES + outputs.length * MAX_BYTES_PER_OUTPUT,
      ...options,
      parse: (body) => parseSignatures(body, outputs),
      parseRejection: (response) => ({ outcome: 'rejected', reason: parseSwapRejection(response) }),
    });
  }

  /**
   * Checks whether proofs are spent (NUT-07).
   *
   * @param ys the points Y that identify the proofs, in lower-case hex. For upper case, Nutshell would report UNSPENT
   * @returns the states by Y
   */
  checkState(mintUrl: string, ys: readonly string[]) {
    return this.#send({
      mintUrl,
      route: 'state',
      path: '/v1/checkstate',
      body: { Ys: ys },
      maxResponseBytes: MAX_BASE_RESPONSE_BYTES + ys.length * MAX_BYTES_PER_STATE,
      parse: (body) => parseProofStates(body, ys),
    });
  }

  /**
   * Reads the signatures that the mint created for outputs of an earlier swap (NUT-09).
   *
   * @param outputs exactly as they were sent in that swap
   * @returns only the outputs that the mint has signed
   */
  restore(mintUrl: string, outputs: readonly BlindedMessage[]) {
    return this.#send({
      mintUrl,
      route: 'restore',
      path: '/v1/restore',
      body: { outputs },
      maxResponseBytes: MAX_BASE_RESPONSE_BYTES + outputs.length * MAX_BYTES_PER_OUTPUT,
      parse: (body) => parseRestoredOutputs(body, outputs),
    });
  }

  #send<Result extends RequestResult>(
    request: MintRequest<Result>,
  ): Promise<Result | FailedResult> {
    const maxWaitMs = request.maxWaitMs ?? this.#deps.limiter?.payerMaxWaitMs;
    return sendMintRequest(this.#deps, { ...request, maxWaitMs });
  }
}

/** The part of a response whose size does not depend on the request. The keys of a keyset are about 7 kB. */
const MAX_BASE_RESPONSE_BYTES = 64 * 1024;

/** A signature with its DLEQ proof and its output is about 600 bytes. */
const MAX_BYTES_PER_OUTPUT = 1024;

/** The state of a spent proof may include its witness, which contains a few signatures. */
const MAX_BYTES_PER_STATE = 2 * 1024;

/** A list of hundreds of keysets is about 100 kB. */
const MAX_KEYSETS_RESPONSE_BYTES = 256 * 1024;

/** A mint has a few keysets, or hundreds after many years with several units. */
const MAX_KEYSETS = 1_000;

/** A keyset for the powers of two up to 2^63 has 64 keys. A keyset for other amounts may have more. */
const MAX_KEYS = 256;

/** A thousand sats per proof (ppk: thousandths of a sat per proof). The bound keeps sums of fees exact integers. */
const MAX_FEE_PPK = 1_000_000;

/** A compressed point of secp256k1 in hex, converted to lower case. */
const pointSchema = z
  .string()
  .regex(/^0[23][0-9a-fA-F]{64}$/)
  .toLowerCase();

/** Hex, or base64 for the oldest keysets. The longest ids are 33 bytes in hex. */
const keysetIdSchema = z.string().regex(/^[A-Za-z0-9+/=_-]{1,66}$/);

const keysetsResponseSchema = z.object({ keysets: z.array(z.unknown()) });

const keysetSchema = z
  .object({
    id: keysetIdSchema,
    unit: z.string().max(32),
    active: z.boolean(),
    input_fee_ppk: wholeNumberSchema.refine((fee) => fee <= MAX_FEE_PPK).nullish(),
    final_expiry: wholeNumberSchema.nullish(),
  })
  .transform(
    ({ input_fee_ppk, final_expiry, ...keyset }): Keyset => ({
      ...keyset,
      inputFeePpk: input_fee_ppk ?? 0,
      ...(typeof final_expiry === 'number' && { finalExpiry: final_expiry }),
    }),
  );

/** Validating thousands of keys would take long, so they are counted first. */
const unvalidatedKeysSchema = z.custom<object>(
  (keys) => typeof keys === 'object' && keys !== null && Object.keys(keys).length <= MAX_KEYS,
);

/** Amounts are text because they can reach 2^64 - 1. No key may be skipped: the id depends on all keys (NUT-02). */
const keysetKeysSchema = z.object({
  id: keysetIdSchema,
  keys: unvalidatedKeysSchema.pipe(z.record(z.string().regex(/^[1-9]\d{0,19}$/), pointSchema)),
});

const signatureSchema: z.ZodType<BlindSignature> = z.object({
  id: keysetIdSchema,
  amount: wholeNumberSchema,
  C_: pointSchema,
});

const signaturesSchema = z.array(signatureSchema);
const statesSchema = z.array(
  z.object({ Y: z.string().toLowerCase(), state: z.enum(['UNSPENT', 'PENDING', 'SPENT']) }),
);
const restoredPairsSchema = z.array(
  z.tuple([z.object({ B_: z.string().toLowerCase() }), signatureSchema]),
);

/** The lists of a response. Parsing their entries takes time, so their lengths are checked first. */
const listsSchema = z.object({
  signatures: z.array(z.unknown()).nullish(),
  /** What older versions of cdk-mintd and Nutshell send instead of `signatures`. */
  promises: z.array(z.unknown()).nullish(),
  outputs: z.array(z.unknown()).optional(),
  states: z.array(z.unknown()).optional(),
});

/** Parses a list of keysets and skips malformed entries; null if the body has no list. */
function parseKeysets(body: unknown): { outcome: 'found'; keysets: Keyset[] } | null {
  const entries = keysetsResponseSchema.safeParse(body).data?.keysets.slice(0, MAX_KEYSETS);
  const keysets = entries?.flatMap((entry) => keysetSchema.safeParse(entry).data ?? []);
  return keysets ? { outcome: 'found', keysets } : null;
}

/** Parses the keys of one keyset; null if they are missing or malformed. */
function parseKeys(body: unknown, keysetId: string): { outcome: 'found'; keys: KeysetKeys } | null {
  const entry = keysetsResponseSchema
    .safeParse(body)
    .data?.keysets.find((each) => (each as { id?: unknown } | null)?.id === keysetId);
  const keys = keysetKeysSchema.safeParse(entry).data;
  return keys ? { outcome: 'found', keys } : null;
}

/** Parses the signatures for outputs; null unless there is one for each. The caller checks which outputs they are for. */
function parseSignatures(
  body: unknown,
  outputs: readonly BlindedMessage[],
): { outcome: 'signed'; signatures: BlindSignature[] } | null {
  const unvalidated = listsSchema.safeParse(body).data?.signatures;
  if (unvalidated?.length !== outputs.length) {
    return null;
  }
  const signatures = signaturesSchema.safeParse(unvalidated).data;
  return signatures ? { outcome: 'signed', signatures } : null;
}

/** Parses the states of proofs by Y in lower case; null if a proof has no state. */
function parseProofStates(body: unknown, requestedYs: readonly string[]) {
  const unvalidated = listsSchema.safeParse(body).data?.states ?? [];
  const parsed =
    unvalidated.length > 2 * requestedYs.length
      ? undefined
      : statesSchema.safeParse(unvalidated).data;
  const requested = new Set(requestedYs);
  const states = new Map<string, ProofState>();
  for (const { Y, state } of parsed ?? []) {
    if (requested.has(Y)) {
      states.set(Y, state);
    }
  }
  return states.size === requested.size ? { outcome: 'found' as const, states } : null;
}

/**
 * Parses the outputs that a mint signed earlier; null if any part is malformed or belongs to an output that was not
 * requested. Skipping such parts would be wrong: the caller treats the ecash of a missing output as lost.
 */
function parseRestoredOutputs(body: unknown, requested: readonly BlindedMessage[]) {
  const response = listsSchema.safeParse(body).data;
  const outputs = response?.outputs;
  const signatures = response?.signatures ?? response?.promises;
  if (!outputs || outputs.length > requested.length || signatures?.length !== outputs.length) {
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
  return { outcome: 'found' as const, restored };
}
