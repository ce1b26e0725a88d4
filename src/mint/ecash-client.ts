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
  type Answered,
  askMint,
  isSuccess,
  type RateLimited,
  UNEXPECTED_ANSWER,
  type Unavailable,
  unavailable,
} from './ask-mint.ts';
import {
  type MeltProgress,
  type MeltQuote,
  parseKeys,
  parseKeysets,
  parseMeltProgress,
  parseMeltQuote,
  parseRestored,
  parseSignatures,
  parseStates,
  type RestoredOutput,
} from './ecash-answer.ts';
import { type MeltRefusal, meltRefusal, type SwapRefusal, swapRefusal } from './ecash-refusal.ts';
import { isUnknownQuote, mintErrorCode, mintErrorDetail, refusalDetail } from './mint-error.ts';
import { isQuoteId } from './quote-answer.ts';

export type ReadKeysetsAnswer = { outcome: 'found'; keysets: Keyset[] } | RateLimited | Unavailable;

export type ReadKeysAnswer =
  | { outcome: 'found'; keys: KeysetKeys }
  | { outcome: 'not_found' }
  | RateLimited
  | Unavailable;

export type SwapAnswer =
  /** One on each output, in their order. */
  | { outcome: 'signed'; signatures: BlindSignature[] }
  /** `detail` is the mint's own word, short, printable and without secrets. */
  | { outcome: 'refused'; reason: SwapRefusal; detail: string }
  | RateLimited
  | Unavailable;

export type CheckStateAnswer =
  /** By each Y that was asked for, in lower case. */
  { outcome: 'found'; states: ReadonlyMap<string, ProofState> } | RateLimited | Unavailable;

export type RestoreAnswer =
  /** Those that the mint has signed; none where it has signed none. */
  { outcome: 'found'; restored: RestoredOutput[] } | RateLimited | Unavailable;

export type CreateMeltQuoteAnswer =
  | { outcome: 'created'; quote: MeltQuote }
  | { outcome: 'refused'; detail: string }
  | RateLimited
  | Unavailable;

export type ReadMeltQuoteAnswer =
  | ({ outcome: 'found' } & MeltProgress)
  | { outcome: 'not_found' }
  | RateLimited
  | Unavailable;

export type MeltAnswer =
  | ({ outcome: 'answered' } & MeltProgress)
  | { outcome: 'refused'; reason: MeltRefusal; detail: string }
  | RateLimited
  | Unavailable;

/** What an answer may have beside its lists: a quote of a melt, with a long invoice, is some 9 kB. */
const MAX_PLAIN_BYTES = 64 * 1024;

/** A signature with its DLEQ, and the output that it is on, are some 600 bytes. */
const MAX_BYTES_PER_OUTPUT = 1024;

/** A spent proof's state comes with its witness, which is a few signatures at most. */
const MAX_BYTES_PER_STATE = 2 * 1024;

/** Some hundreds of keysets, which a mint has after many years, are 100 kB. */
const MAX_KEYSETS_BYTES = 256 * 1024;

/**
 * What swaps, restores and melts need of mints (NUT-01, NUT-02, NUT-03, NUT-05, NUT-07, NUT-08,
 * NUT-09, NUT-23). Mint urls are normalised ones. A swap or melt that ends `unavailable` may have been
 * done, unless `isUnsent` says otherwise.
 */
export class EcashClient {
  readonly #fetch: Pick<GuardedFetch, 'request'>;
  readonly #clock: Clock;

  constructor({ fetch, clock }: { fetch: Pick<GuardedFetch, 'request'>; clock: Clock }) {
    this.#fetch = fetch;
    this.#clock = clock;
  }

  /** Asks which keysets a mint has, inactive ones as well (NUT-02). */
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

  /** Asks for the keys of one keyset (NUT-01). Whether they are its keys, their id tells. */
  async readKeys(mintUrl: string, keysetId: string): Promise<ReadKeysAnswer> {
    const url = `${mintUrl}/v1/keys/${encodeURIComponent(urlSafe(keysetId))}`;
    // A key for each power of two: some 7 kB.
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

  /** Gives proofs for new ones (NUT-03). */
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
      return { outcome: 'refused', reason: swapRefusal(answer), detail: refusalDetail(answer) };
    }
    const signatures = parseSignatures(parseJson(answer.text), outputs);
    return signatures === null ? UNEXPECTED_ANSWER : { outcome: 'signed', signatures };
  }

  /**
   * Asks whether proofs are spent (NUT-07).
   *
   * @param ys the points of their secrets in hex; mints take 1000 at a time
   */
  async checkState(mintUrl: string, ys: readonly string[]): Promise<CheckStateAnswer> {
    // Nutshell compares the text: of a spent proof it says UNSPENT where the case is another one.
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
   * Asks for the signatures that were given on outputs before (NUT-09).
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

  /** Asks what it costs to have a bolt11 invoice paid (NUT-05, NUT-23). */
  async createMeltQuote(mintUrl: string, request: string): Promise<CreateMeltQuoteAnswer> {
    const answer = await this.#ask({
      method: 'POST',
      url: `${mintUrl}/v1/melt/quote/bolt11`,
      body: { request, unit: 'sat' },
      maxBodyBytes: MAX_PLAIN_BYTES,
    });
    if (answer.outcome !== 'answered') {
      return answer;
    }
    if (!isSuccess(answer)) {
      return { outcome: 'refused', detail: refusalDetail(answer) };
    }
    const quote = parseMeltQuote(parseJson(answer.text));
    return quote === null ? UNEXPECTED_ANSWER : { outcome: 'created', quote };
  }

  /** Asks how the payment of a melt quote stands (NUT-05). */
  async readMeltQuote(mintUrl: string, quoteId: string): Promise<ReadMeltQuoteAnswer> {
    if (!isQuoteId(quoteId)) {
      return { outcome: 'not_found' };
    }
    const url = `${mintUrl}/v1/melt/quote/bolt11/${encodeURIComponent(quoteId)}`;
    // The change of a payment may be in it: a few signatures, of which there is one for each power of two.
    const answer = await this.#ask({ method: 'GET', url, maxBodyBytes: MAX_PLAIN_BYTES });
    if (answer.outcome !== 'answered') {
      return answer;
    }
    if (!isSuccess(answer)) {
      return isUnknownQuote(mintErrorDetail(answer))
        ? { outcome: 'not_found' }
        : unavailable(answer.status);
    }
    const progress = parseMeltProgress(parseJson(answer.text), quoteId);
    return progress === null ? UNEXPECTED_ANSWER : { outcome: 'found', ...progress };
  }

  /**
   * Has an invoice paid with proofs (NUT-05, NUT-08). A payment may take longer than an answer is
   * waited for: then it ends `unavailable`, and the quote tells.
   *
   * @param order.outputs blank ones for the change; their amounts count for nothing
   */
  async melt(
    mintUrl: string,
    order: { quoteId: string; inputs: readonly Proof[]; outputs: readonly BlindedMessage[] },
  ): Promise<MeltAnswer> {
    const { quoteId, inputs, outputs } = order;
    const answer = await this.#ask({
      method: 'POST',
      url: `${mintUrl}/v1/melt/bolt11`,
      body: {
        quote: quoteId,
        inputs: inputs.map(spendable),
        ...(outputs.length > 0 && { outputs }),
      },
      maxBodyBytes: boundFor(outputs.length, MAX_BYTES_PER_OUTPUT),
    });
    if (answer.outcome !== 'answered') {
      return answer;
    }
    if (!isSuccess(answer)) {
      return { outcome: 'refused', reason: meltRefusal(answer), detail: refusalDetail(answer) };
    }
    const progress = parseMeltProgress(parseJson(answer.text), quoteId);
    return progress === null ? UNEXPECTED_ANSWER : { outcome: 'answered', ...progress };
  }

  #ask(request: GuardedRequest): Promise<Answered | RateLimited | Unavailable> {
    return askMint(this.#fetch, this.#clock, request);
  }

  /** Asks what a mint has no reason to refuse: where it does, it is not of use now. */
  async #askSurely(request: GuardedRequest): Promise<Answered | RateLimited | Unavailable> {
    const answer = await this.#ask(request);
    return answer.outcome === 'answered' && !isSuccess(answer)
      ? unavailable(answer.status)
      : answer;
  }
}

const UNKNOWN_KEYSET = 12001;

function boundFor(entries: number, maxBytesPerEntry: number): number {
  return MAX_PLAIN_BYTES + entries * maxBytesPerEntry;
}

/** The oldest ids are base64; Nutshell takes them as base64url, and a slash in no other way. */
function urlSafe(keysetId: string): string {
  return keysetId.replaceAll('+', '-').replaceAll('/', '_');
}

/** What a mint needs of a proof: not the DLEQ, which would tell it where the proof comes from. */
function spendable({ id, amount, secret, C, witness }: Proof): Omit<Proof, 'dleq'> {
  return { id, amount, secret, C, ...(witness !== undefined && { witness }) };
}
