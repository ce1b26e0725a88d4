import { z } from 'zod';
import type {
  BlindedMessage,
  BlindSignature,
  Keyset,
  KeysetKeys,
  Proof,
  ProofState,
} from './ecash.ts';
import { RATE_LIMITER_TIMING } from './limits.ts';
import {
  type MintErrorResponse,
  type MintRequest,
  type MintRequestContext,
  parseErrorDetail,
  sendMintRequest,
} from './mint-client.ts';
import type { RequestWait } from './mint-rate-limiter.ts';
import { wholeNumberSchema } from './quote-responses.ts';
import type { FailedResult, RequestResult } from './route-rate-limiter.ts';

/** For the part of a response that does not grow with the request. The keys of a keyset are about 7 kB. */
const MAX_BASE_RESPONSE_BYTES = 64 * 1024;

/** A signature with its DLEQ proof and its output is about 600 bytes. */
const MAX_BYTES_PER_OUTPUT = 1024;

/** Sends requests about ecash: swaps proofs, checks their states and restores outputs. */
export class EcashClient {
  readonly #context: MintRequestContext;

  constructor(context: MintRequestContext) {
    this.#context = context;
  }

  readKeysets(mintUrl: string) {
    return this.#send({
      mintUrl,
      route: 'keys',
      path: '/v1/keysets',
      // A list of hundreds of keysets is about 100 kB.
      maxResponseBytes: 256 * 1024,
      parse: parseKeysets,
    });
  }

  /** Reads the keys of one keyset (NUT-01). The caller must verify that the keyset's id is derived from them. */
  readKeys(mintUrl: string, keysetId: string) {
    return this.#send({
      mintUrl,
      route: 'keys',
      path: `/v1/keys/${encodeURIComponent(keysetId)}`,
      maxResponseBytes: MAX_BASE_RESPONSE_BYTES,
      parse: (body) => parseKeys(body, keysetId),
    });
  }

  getSwapWaitMs(mintUrl: string, addressGroup: string): number {
    return this.#context.limiter?.getWaitMs(mintUrl, 'swap', addressGroup) ?? 0;
  }

  /** Swaps proofs for new ones (NUT-03). If it is `unavailable` without `isUnsent`, the mint may have executed it. */
  swap(
    mintUrl: string,
    inputs: readonly Proof[],
    outputs: readonly BlindedMessage[],
    wait: RequestWait = {},
  ) {
    return this.#send<SwapResponse>({
      mintUrl,
      route: 'swap',
      path: '/v1/swap',
      body: { inputs, outputs },
      maxResponseBytes: MAX_BASE_RESPONSE_BYTES + outputs.length * MAX_BYTES_PER_OUTPUT,
      ...wait,
      parse: (body) => parseSignatures(body, outputs.length),
      parseRejection: (response) => ({ outcome: 'rejected', reason: parseSwapRejection(response) }),
    });
  }

  /** Returns the states of proofs by Y (NUT-07), which must be in lower case: Nutshell reports others as UNSPENT. */
  checkState(mintUrl: string, ys: readonly string[], wait: RequestWait = {}) {
    return this.#send({
      mintUrl,
      route: 'state',
      path: '/v1/checkstate',
      body: { Ys: ys },
      ...wait,
      // The state of a spent proof may include its witness, which contains a few signatures.
      maxResponseBytes: MAX_BASE_RESPONSE_BYTES + ys.length * 2 * 1024,
      parse: (body) => parseProofStates(body, ys),
    });
  }

  /** Returns those outputs of an earlier swap that the mint has signed, with its signatures (NUT-09). */
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

  /** By default, waits for the mint's rate limit as long as a payer does. */
  #send<Result extends RequestResult>(
    request: MintRequest<Result>,
  ): Promise<Result | FailedResult> {
    const { maxWaitMs = RATE_LIMITER_TIMING.payerMaxWaitMs } = request;
    return sendMintRequest(this.#context, { ...request, maxWaitMs });
  }
}

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
    // More than any mint charges, and small enough that a sum of fees stays exact.
    input_fee_ppk: wholeNumberSchema.refine((fee) => fee <= 1_000_000).nullish(),
    final_expiry: wholeNumberSchema.nullish(),
  })
  .transform(
    ({ input_fee_ppk, final_expiry, ...keyset }): Keyset => ({
      ...keyset,
      inputFeePpk: input_fee_ppk ?? 0,
      ...(typeof final_expiry === 'number' && { finalExpiry: final_expiry }),
    }),
  );

// Amounts are text because they can reach 2^64 - 1. The keys are counted first, because validating thousands would take
// long. A keyset for the powers of two has 64. A malformed key is not skipped, because the id depends on all (NUT-02).
const keysetKeysSchema = z.object({
  id: keysetIdSchema,
  keys: z
    .custom<object>(
      (keys) => typeof keys === 'object' && keys !== null && Object.keys(keys).length <= 256,
    )
    .pipe(z.record(z.string().regex(/^[1-9]\d{0,19}$/), pointSchema)),
});

const signatureSchema: z.ZodType<BlindSignature> = z.object({
  id: keysetIdSchema,
  amount: wholeNumberSchema,
  C_: pointSchema,
});

const stateSchema = z.object({
  Y: z.string().toLowerCase(),
  state: z.enum(['UNSPENT', 'PENDING', 'SPENT']),
});

/** Rejects a list with a malformed entry. Checks the length first, because parsing the entries takes time. */
function strictListOf<T>(schema: z.ZodType<T>, maxLength: number) {
  return z.array(z.unknown()).max(maxLength).pipe(z.array(schema));
}

/** Skips malformed entries. A mint has a few keysets, and at most hundreds after many years with several units. */
function parseKeysets(body: unknown): { outcome: 'found'; keysets: Keyset[] } | null {
  const entries = keysetsResponseSchema.safeParse(body).data?.keysets.slice(0, 1_000);
  const keysets = entries?.flatMap((entry) => keysetSchema.safeParse(entry).data ?? []);
  return keysets ? { outcome: 'found', keysets } : null;
}

function parseKeys(body: unknown, keysetId: string): { outcome: 'found'; keys: KeysetKeys } | null {
  const entry = keysetsResponseSchema
    .safeParse(body)
    .data?.keysets.find((keyset) => (keyset as { id?: unknown } | null)?.id === keysetId);
  const keys = keysetKeysSchema.safeParse(entry).data;
  return keys ? { outcome: 'found', keys } : null;
}

type SwapResponse =
  | { outcome: 'signed'; signatures: BlindSignature[] }
  | { outcome: 'rejected'; reason: SwapRejectionReason };

/** Returns null unless there is a signature for each output. The caller checks which outputs they are for. */
function parseSignatures(body: unknown, count: number): SwapResponse | null {
  const schema = z.object({ signatures: strictListOf(signatureSchema, count) });
  const signatures = schema.safeParse(body).data?.signatures;
  return signatures?.length === count ? { outcome: 'signed', signatures } : null;
}

function parseProofStates(body: unknown, requestedYs: readonly string[]) {
  // A mint may repeat an entry.
  const schema = z.object({ states: strictListOf(stateSchema, 2 * requestedYs.length) });
  const requested = new Set(requestedYs);
  const states = new Map<string, ProofState>();
  for (const { Y, state } of schema.safeParse(body).data?.states ?? []) {
    if (requested.has(Y)) {
      states.set(Y, state);
    }
  }
  return states.size === requested.size ? { outcome: 'found' as const, states } : null;
}

/** Returns null if a part is malformed or was not requested: the caller treats ecash that is not restored as lost. */
function parseRestoredOutputs(body: unknown, requested: readonly BlindedMessage[]) {
  const signaturesSchema = strictListOf(signatureSchema, requested.length).nullish();
  const schema = z.object({
    outputs: strictListOf(z.object({ B_: z.string().toLowerCase() }), requested.length),
    signatures: signaturesSchema,
    // Older versions of cdk-mintd and Nutshell send this instead of `signatures`.
    promises: signaturesSchema,
  });
  const { data } = schema.safeParse(body);
  const signatures = data?.signatures ?? data?.promises;
  if (!data || signatures?.length !== data.outputs.length) {
    return null;
  }
  const requestedByPoint = new Map(requested.map((output) => [output.B_.toLowerCase(), output]));
  const restored = [];
  for (const [i, signature] of signatures.entries()) {
    const point = data.outputs[i]?.B_ ?? '';
    const output = requestedByPoint.get(point);
    if (output?.id !== signature.id) {
      return null;
    }
    requestedByPoint.delete(point);
    restored.push({ B_: output.B_, signature });
  }
  return { outcome: 'found' as const, restored };
}

/** Why a mint rejected a swap. Whatever the reason is, an earlier request without a response may have succeeded. */
export type SwapRejectionReason =
  /** An input is spent; perhaps an earlier request of this service spent it. */
  | 'spent'
  /** The mint is processing another request with one of the inputs, perhaps of this service. */
  | 'pending'
  /** The mint never signed one of the inputs. A retry cannot succeed. */
  | 'invalid'
  /** The mint has already signed the outputs, so an earlier request with them succeeded. */
  | 'outputs_signed'
  | 'keyset_inactive'
  | 'keyset_expired'
  | 'unbalanced'
  | 'other';

/** As sent by Nutshell 0.20.2 and cdk-mintd 0.18. Code and text must match: mints send one code for several errors. */
const KNOWN_REJECTIONS: [SwapRejectionReason, codes: number[], text: RegExp][] = [
  ['spent', [11001], /spent/i],
  ['pending', [11002], /pending/i],
  [
    'invalid',
    [10001],
    /proofs? (could not be verified|verification failed)|no secret in proofs|token not verified/i,
  ],
  ['outputs_signed', [11003], /already( been)? signed/i],
  ['keyset_inactive', [12002, 11000], /keyset.*(inactive|not active)|(inactive|no active) keyset/i],
  ['keyset_expired', [12003], /keyset.*expired/i],
  [
    'unbalanced',
    [11005, 11000],
    /not balanced|less than output amounts|inputs should equal outputs/i,
  ],
];

export function parseSwapRejection(response: MintErrorResponse): SwapRejectionReason {
  const code = z.object({ code: z.int() }).safeParse(response.json).data?.code;
  const detail = parseErrorDetail(response);
  const known = KNOWN_REJECTIONS.find(
    ([, codes, text]) => code !== undefined && codes.includes(code) && text.test(detail),
  );
  return known?.[0] ?? 'other';
}
