import { parseJson } from '../untrusted-text.ts';
import type {
  BlindedMessage,
  BlindSignature,
  Keyset,
  KeysetKeys,
  Proof,
  ProofState,
} from './ecash.ts';
import {
  parseKeys,
  parseKeysets,
  parseRestored,
  parseSignatures,
  parseStates,
  type RestoredOutput,
} from './ecash-answer.ts';
import { type SwapRefusal, swapRefusal } from './ecash-refusal.ts';
import {
  type Answered,
  askMint,
  isSuccess,
  type MintClientParts,
  type MintRequest,
  type RateLimited,
  UNEXPECTED_ANSWER,
  type Unavailable,
  unavailable,
} from './mint-client.ts';
import { mintErrorCode } from './mint-error.ts';

export type ReadKeysetsAnswer = { outcome: 'found'; keysets: Keyset[] } | RateLimited | Unavailable;

export type ReadKeysAnswer =
  | { outcome: 'found'; keys: KeysetKeys }
  | { outcome: 'not_found' }
  | RateLimited
  | Unavailable;

export type SwapAnswer =
  /** One signature for each output, in the same order. */
  | { outcome: 'signed'; signatures: BlindSignature[] }
  | { outcome: 'refused'; reason: SwapRefusal }
  | RateLimited
  | Unavailable;

export type CheckStateAnswer =
  /** By Y in lower case; complete. */
  { outcome: 'found'; states: ReadonlyMap<string, ProofState> } | RateLimited | Unavailable;

export type RestoreAnswer =
  /** The outputs that the mint has signed; may be empty. */
  { outcome: 'found'; restored: RestoredOutput[] } | RateLimited | Unavailable;

/** For everything in a response except its lists. The keys of a keyset are about 7 kB. */
const MAX_PLAIN_BYTES = 64 * 1024;

/** A signature with its DLEQ and its output is about 600 bytes. */
const MAX_BYTES_PER_OUTPUT = 1024;

/** The state of a spent proof may come with its witness: a few signatures. */
const MAX_BYTES_PER_STATE = 2 * 1024;

/** A mint with hundreds of keysets sends about 100 kB. */
const MAX_KEYSETS_BYTES = 256 * 1024;

/**
 * Requests that swap and restore ecash (NUT-01, NUT-02, NUT-03, NUT-07, NUT-09). Mint URLs are normalised.
 * A mint may have carried out a swap that ends `unavailable`, unless `isUnsent` is set. After
 * `rate_limited` nothing was sent.
 */
export class EcashClient {
  readonly #parts: MintClientParts;

  constructor(parts: MintClientParts) {
    this.#parts = parts;
  }

  /** Reads the keysets of a mint, including inactive ones (NUT-02). */
  async readKeysets(mintUrl: string): Promise<ReadKeysetsAnswer> {
    const path = '/v1/keysets';
    const request: MintRequest = { mintUrl, route: 'keys', path, maxBytes: MAX_KEYSETS_BYTES };
    return await this.#askSurely(request, (answer) => {
      const keysets = parseKeysets(answer);
      return keysets === null ? UNEXPECTED_ANSWER : { outcome: 'found', keysets };
    });
  }

  /** Reads the keys of one keyset (NUT-01). The caller verifies them against its id. */
  async readKeys(mintUrl: string, keysetId: string): Promise<ReadKeysAnswer> {
    const path = `/v1/keys/${encodeURIComponent(urlSafe(keysetId))}`;
    const request: MintRequest = { mintUrl, route: 'keys', path, maxBytes: MAX_PLAIN_BYTES };
    return await this.#ask<ReadKeysAnswer>(request, (answer) => {
      if (!isSuccess(answer)) {
        return mintErrorCode(answer) === UNKNOWN_KEYSET
          ? { outcome: 'not_found' }
          : unavailable(answer.status);
      }
      const keys = parseKeys(parseJson(answer.text), keysetId);
      return keys === null ? UNEXPECTED_ANSWER : { outcome: 'found', keys };
    });
  }

  /** Swaps proofs for new ones (NUT-03). */
  async swap(
    mintUrl: string,
    inputs: readonly Proof[],
    outputs: readonly BlindedMessage[],
  ): Promise<SwapAnswer> {
    const body = { inputs: inputs.map(spendable), outputs };
    const maxBytes = boundFor(outputs.length, MAX_BYTES_PER_OUTPUT);
    const request: MintRequest = { mintUrl, route: 'swap', path: '/v1/swap', body, maxBytes };
    return await this.#ask<SwapAnswer>(request, (answer) => {
      if (!isSuccess(answer)) {
        return { outcome: 'refused', reason: swapRefusal(answer) };
      }
      const signatures = parseSignatures(parseJson(answer.text), outputs);
      return signatures === null ? UNEXPECTED_ANSWER : { outcome: 'signed', signatures };
    });
  }

  /**
   * Checks whether proofs are spent (NUT-07).
   *
   * @param ys the points of their secrets in hex, at most 1000
   */
  async checkState(mintUrl: string, ys: readonly string[]): Promise<CheckStateAnswer> {
    // Nutshell compares the text: for upper case it reports UNSPENT although the proof is spent.
    const Ys = ys.map((y) => y.toLowerCase());
    const path = '/v1/checkstate';
    const maxBytes = boundFor(ys.length, MAX_BYTES_PER_STATE);
    const request: MintRequest = { mintUrl, route: 'state', path, body: { Ys }, maxBytes };
    return await this.#askSurely(request, (answer) => {
      const states = parseStates(answer, Ys);
      return states === null ? UNEXPECTED_ANSWER : { outcome: 'found', states };
    });
  }

  /**
   * Reads the signatures that the mint gave for outputs earlier (NUT-09).
   *
   * @param outputs exactly as they were sent then
   */
  async restore(mintUrl: string, outputs: readonly BlindedMessage[]): Promise<RestoreAnswer> {
    const path = '/v1/restore';
    const maxBytes = boundFor(outputs.length, MAX_BYTES_PER_OUTPUT);
    const request: MintRequest = { mintUrl, route: 'restore', path, body: { outputs }, maxBytes };
    return await this.#askSurely(request, (answer) => {
      const restored = parseRestored(answer, outputs);
      return restored === null ? UNEXPECTED_ANSWER : { outcome: 'found', restored };
    });
  }

  #ask<Result extends { outcome: string }>(
    request: MintRequest,
    read: (answer: Answered) => Result,
  ): Promise<Result | RateLimited | Unavailable> {
    const patienceMs = this.#parts.limiter?.payerPatienceMs;
    return askMint(this.#parts, { ...request, patienceMs }, read);
  }

  /** Sends a request that a working mint never rejects: a rejection counts as `unavailable`. */
  #askSurely<Result extends { outcome: string }>(
    request: MintRequest,
    read: (answer: unknown) => Result,
  ): Promise<Result | RateLimited | Unavailable> {
    return this.#ask<Result | Unavailable>(request, (answer) =>
      isSuccess(answer) ? read(parseJson(answer.text)) : unavailable(answer.status),
    );
  }
}

const UNKNOWN_KEYSET = 12001;

function boundFor(entries: number, maxBytesPerEntry: number): number {
  return MAX_PLAIN_BYTES + entries * maxBytesPerEntry;
}

/** The oldest ids are base64. Nutshell accepts a slash in them only as base64url. */
function urlSafe(keysetId: string): string {
  return keysetId.replaceAll('+', '-').replaceAll('/', '_');
}

/** Returns what a mint needs of a proof. The DLEQ would reveal where the proof comes from. */
function spendable({ id, amount, secret, C }: Proof): Omit<Proof, 'dleq'> {
  return { id, amount, secret, C };
}
