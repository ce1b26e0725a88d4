import type { BlindedMessage, BlindSignature, Keyset, KeysetKeys, Proof } from './ecash.ts';
import {
  parseKeys,
  parseKeysets,
  parseProofStates,
  parseRestoredOutputs,
  parseSignatures,
} from './ecash-responses.ts';
import { parseErrorCode } from './mint-error.ts';
import {
  type FailedResult,
  type MintRequest,
  type MintRequestDeps,
  sendMintRequest,
} from './mint-request.ts';
import { parseSwapRejection, type SwapRejectionReason } from './swap-rejection.ts';

export type ReadKeysetsResult = { outcome: 'found'; keysets: Keyset[] } | FailedResult;

export type ReadKeysResult =
  | { outcome: 'found'; keys: KeysetKeys }
  | { outcome: 'not_found' }
  | FailedResult;

type SwapResult =
  /** One signature per output, in the same order. */
  | { outcome: 'signed'; signatures: BlindSignature[] }
  | { outcome: 'rejected'; reason: SwapRejectionReason }
  | FailedResult;

/** For everything in a response except its lists. The keys of a keyset are about 7 kB. */
const MAX_BASE_RESPONSE_BYTES = 64 * 1024;

/** A signature with its DLEQ and its output is about 600 bytes. */
const MAX_BYTES_PER_OUTPUT = 1024;

/** The state of a spent proof may include its witness: a few signatures. */
const MAX_BYTES_PER_STATE = 2 * 1024;

/** The list of a mint with hundreds of keysets is about 100 kB. */
const MAX_KEYSETS_RESPONSE_BYTES = 256 * 1024;

const UNKNOWN_KEYSET_CODE = 12001;

/**
 * Sends the requests that swap and restore ecash (NUT-01, NUT-02, NUT-03, NUT-07, NUT-09). Mint URLs are
 * normalised. The mint may have executed a swap whose result is `unavailable`, unless `isUnsent` is set.
 */
export class EcashClient {
  readonly #deps: MintRequestDeps;

  constructor(deps: MintRequestDeps) {
    this.#deps = deps;
  }

  /** Reads the keysets of a mint, including inactive ones (NUT-02). */
  readKeysets(mintUrl: string): Promise<ReadKeysetsResult> {
    return this.#send({
      mintUrl,
      route: 'keys',
      path: '/v1/keysets',
      maxResponseBytes: MAX_KEYSETS_RESPONSE_BYTES,
      parse: (body) => {
        const keysets = parseKeysets(body);
        return keysets && { outcome: 'found', keysets };
      },
    });
  }

  /** Reads the keys of one keyset (NUT-01). The caller verifies them against its id. */
  readKeys(mintUrl: string, keysetId: string): Promise<ReadKeysResult> {
    // The oldest ids are base64. Nutshell accepts a slash in them only as base64url.
    const base64UrlId = keysetId.replaceAll('+', '-').replaceAll('/', '_');
    return this.#send<ReadKeysResult>({
      mintUrl,
      route: 'keys',
      path: `/v1/keys/${encodeURIComponent(base64UrlId)}`,
      maxResponseBytes: MAX_BASE_RESPONSE_BYTES,
      parse: (body) => {
        const keys = parseKeys(body, keysetId);
        return keys && { outcome: 'found', keys };
      },
      parseRejection: (response) =>
        parseErrorCode(response) === UNKNOWN_KEYSET_CODE ? { outcome: 'not_found' } : null,
    });
  }

  /** Swaps proofs for new ones (NUT-03). */
  swap(
    mintUrl: string,
    inputs: readonly Proof[],
    outputs: readonly BlindedMessage[],
  ): Promise<SwapResult> {
    // Without the DLEQ, which would reveal the origin of the proof to the mint.
    const sentInputs = inputs.map(({ id, amount, secret, C }) => ({ id, amount, secret, C }));
    return this.#send<SwapResult>({
      mintUrl,
      route: 'swap',
      path: '/v1/swap',
      body: { inputs: sentInputs, outputs },
      maxResponseBytes: MAX_BASE_RESPONSE_BYTES + outputs.length * MAX_BYTES_PER_OUTPUT,
      parse: (body) => {
        const signatures = parseSignatures(body, outputs);
        return signatures && { outcome: 'signed', signatures };
      },
      parseRejection: (response) => ({ outcome: 'rejected', reason: parseSwapRejection(response) }),
    });
  }

  /**
   * Checks whether proofs are spent (NUT-07).
   *
   * @param ys the points of their secrets in hex, at most 1000
   * @returns the state of each proof, by Y in lower case
   */
  checkState(mintUrl: string, ys: readonly string[]) {
    // Nutshell compares text: for an upper-case point it reports UNSPENT although the proof is spent.
    const Ys = ys.map((y) => y.toLowerCase());
    return this.#send({
      mintUrl,
      route: 'state',
      path: '/v1/checkstate',
      body: { Ys },
      maxResponseBytes: MAX_BASE_RESPONSE_BYTES + ys.length * MAX_BYTES_PER_STATE,
      parse: (body) => {
        const states = parseProofStates(body, Ys);
        return states && { outcome: 'found' as const, states };
      },
    });
  }

  /**
   * Reads the signatures that the mint created for outputs earlier (NUT-09).
   *
   * @param outputs exactly as they were sent then
   * @returns only the outputs that the mint has signed
   */
  restore(mintUrl: string, outputs: readonly BlindedMessage[]) {
    return this.#send({
      mintUrl,
      route: 'restore',
      path: '/v1/restore',
      body: { outputs },
      maxResponseBytes: MAX_BASE_RESPONSE_BYTES + outputs.length * MAX_BYTES_PER_OUTPUT,
      parse: (body) => {
        const restored = parseRestoredOutputs(body, outputs);
        return restored && { outcome: 'found' as const, restored };
      },
    });
  }

  #send<Result extends { outcome: string }>(
    request: MintRequest<Result>,
  ): Promise<Result | FailedResult> {
    const maxWaitMs = this.#deps.limiter?.payerMaxWaitMs;
    return sendMintRequest(this.#deps, { ...request, maxWaitMs });
  }
}
