import type { Clock } from '../domain/clock.ts';
import type {
  BlindedMessage,
  BlindSignature,
  Keyset,
  KeysetKeys,
  Proof,
  ProofState,
} from '../domain/ecash.ts';
import { parseJson } from '../domain/foreign-text.ts';
import type { GuardedFetch, GuardedRequest } from '../net/guarded-fetch.ts';
import {
  parseKeys,
  parseKeysets,
  parseRestored,
  parseSignatures,
  parseStates,
  type RestoredOutput,
} from './ecash-answer.ts';
import { type SwapRefusal, swapRefusal } from './ecash-refusal.ts';
import { limitedRequest } from './limited-mint-client.ts';
import {
  type Answered,
  askMint,
  isSuccess,
  type RateLimited,
  UNEXPECTED_ANSWER,
  type Unavailable,
  unavailable,
} from './mint-client.ts';
import { mintErrorCode } from './mint-error.ts';
import type { MintRateLimiter, MintRoute } from './mint-rate-limiter.ts';

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
 * A mint may have carried out a swap that ends `unavailable`, unless `isUnsent` is set.
 */
export class EcashClient {
  readonly #fetch: Pick<GuardedFetch, 'request'>;
  readonly #clock: Clock;

  constructor({ fetch, clock }: { fetch: Pick<GuardedFetch, 'request'>; clock: Clock }) {
    this.#fetch = fetch;
    this.#clock = clock;
  }

  /** Reads the keysets of a mint, including inactive ones (NUT-02). */
  async readKeysets(mintUrl: string): Promise<ReadKeysetsAnswer> {
    const answer = await this.#askSurely({
      method: 'GET',
      url: `${mintUrl}/v1/keysets`,
      maxBodyBytes: MAX_KEYSETS_BYTES,
    });
    if (answer.outcome !== 'answered') {
      return answer;
    }
    const keysets = parseKeysets(parseJson(answer.text));
    return keysets === null ? UNEXPECTED_ANSWER : { outcome: 'found', keysets };
  }

  /** Reads the keys of one keyset (NUT-01). The caller verifies them against its id. */
  async readKeys(mintUrl: string, keysetId: string): Promise<ReadKeysAnswer> {
    const url = `${mintUrl}/v1/keys/${encodeURIComponent(urlSafe(keysetId))}`;
    const answer = await this.#ask({ method: 'GET', url, maxBodyBytes: MAX_PLAIN_BYTES });
    if (answer.outcome !== 'answered') {
      return answer;
    }
    if (!isSuccess(answer)) {
      return mintErrorCode(answer) === UNKNOWN_KEYSET
        ? { outcome: 'not_found' }
        : unavailable(answer.status);
    }
    const keys = parseKeys(parseJson(answer.text), keysetId);
    return keys === null ? UNEXPECTED_ANSWER : { outcome: 'found', keys };
  }

  /** Swaps proofs for new ones (NUT-03). */
  async swap(
    mintUrl: string,
    inputs: readonly Proof[],
    outputs: readonly BlindedMessage[],
  ): Promise<SwapAnswer> {
    const answer = await this.#ask({
      method: 'POST',
      url: `${mintUrl}/v1/swap`,
      body: { inputs: inputs.map(spendable), outputs },
      maxBodyBytes: boundFor(outputs.length, MAX_BYTES_PER_OUTPUT),
    });
    if (answer.outcome !== 'answered') {
      return answer;
    }
    if (!isSuccess(answer)) {
      return { outcome: 'refused', reason: swapRefusal(answer) };
    }
    const signatures = parseSignatures(parseJson(answer.text), outputs);
    return signatures === null ? UNEXPECTED_ANSWER : { outcome: 'signed', signatures };
  }

  /**
   * Checks whether proofs are spent (NUT-07).
   *
   * @param ys the points of their secrets in hex, at most 1000
   */
  async checkState(mintUrl: string, ys: readonly string[]): Promise<CheckStateAnswer> {
    // Nutshell compares the text: for upper case it reports UNSPENT although the proof is spent.
    const lowerCaseYs = ys.map((y) => y.toLowerCase());
    const answer = await this.#askSurely({
      method: 'POST',
      url: `${mintUrl}/v1/checkstate`,
      body: { Ys: lowerCaseYs },
      maxBodyBytes: boundFor(ys.length, MAX_BYTES_PER_STATE),
    });
    if (answer.outcome !== 'answered') {
      return answer;
    }
    const states = parseStates(parseJson(answer.text), lowerCaseYs);
    return states === null ? UNEXPECTED_ANSWER : { outcome: 'found', states };
  }

  /**
   * Reads the signatures that the mint gave for outputs earlier (NUT-09).
   *
   * @param outputs exactly as they were sent then
   */
  async restore(mintUrl: string, outputs: readonly BlindedMessage[]): Promise<RestoreAnswer> {
    const answer = await this.#askSurely({
      method: 'POST',
      url: `${mintUrl}/v1/restore`,
      body: { outputs },
      maxBodyBytes: boundFor(outputs.length, MAX_BYTES_PER_OUTPUT),
    });
    if (answer.outcome !== 'answered') {
      return answer;
    }
    const restored = parseRestored(parseJson(answer.text), outputs);
    return restored === null ? UNEXPECTED_ANSWER : { outcome: 'found', restored };
  }

  #ask(request: GuardedRequest): Promise<Answered | RateLimited | Unavailable> {
    return askMint(this.#fetch, this.#clock, request);
  }

  /** Sends a request that a working mint never rejects: a rejection counts as `unavailable`. */
  async #askSurely(request: GuardedRequest): Promise<Answered | RateLimited | Unavailable> {
    const answer = await this.#ask(request);
    return answer.outcome === 'answered' && !isSuccess(answer)
      ? unavailable(answer.status)
      : answer;
  }
}

/** The requests of an {@link EcashClient}. After `rate_limited` nothing was sent. */
export type EcashRequests = Pick<EcashClient, keyof EcashClient>;

/** An {@link EcashClient} that asks a mint only when the {@link MintRateLimiter} permits. */
export function limitedEcashClient(client: EcashClient, limiter: MintRateLimiter): EcashRequests {
  const patienceMs = limiter.payerPatienceMs;
  const limited = <Answer extends { outcome: string }>(
    mintUrl: string,
    route: MintRoute,
    ask: () => Promise<Answer>,
  ) => limitedRequest(limiter, mintUrl, route, ask, { patienceMs });
  return {
    readKeysets: (...args) => limited(args[0], 'keys', () => client.readKeysets(...args)),
    readKeys: (...args) => limited(args[0], 'keys', () => client.readKeys(...args)),
    swap: (...args) => limited(args[0], 'swap', () => client.swap(...args)),
    checkState: (...args) => limited(args[0], 'state', () => client.checkState(...args)),
    restore: (...args) => limited(args[0], 'restore', () => client.restore(...args)),
  };
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
