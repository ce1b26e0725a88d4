import { createNewMintKeys, type KeysetPair, serializeMintKeys } from '@cashu/cashu-ts';
import { keysetExpired, MintRejection } from './mint-rejection.ts';

/** Keys for the amounts 1, 2, 4, … 2^32 sat (43 BTC). No test pays more. */
const KEY_COUNT = 33;

/** The first byte of keyset ids of version 2 (NUT-02). */
const ID_VERSION_BYTE = 1;

export interface KeysetRotation {
  /** Default: the fee of the previous keyset. */
  inputFeePpk?: number;
  /** In Unix seconds. Default: the new keyset does not expire. */
  finalExpirySeconds?: number;
}

interface MintKeyset {
  pair: KeysetPair;
  /** The keyset's entry in `GET /v1/keysets`. */
  summary: {
    id: string;
    unit: 'sat';
    active: boolean;
    input_fee_ppk: number;
    /** In Unix seconds. */
    final_expiry?: number;
  };
}

/**
 * The mint's keysets, all with unit sat (NUT-01, NUT-02). The mint issues with the newest one. Proofs of the others can
 * still be spent until they expire.
 */
export class TestMintKeysets {
  readonly #byId = new Map<string, MintKeyset>();
  /** Created when it is needed, because its keys take 10 ms. */
  #newest: MintKeyset | null = null;
  readonly #firstFeePpk: number;
  readonly #now: () => number;

  /** @param inputFeePpk fee per input of the first keyset, in thousandths of a sat */
  constructor(inputFeePpk: number, now: () => number) {
    this.#now = now;
    this.#firstFeePpk = inputFeePpk;
  }

  get #active(): MintKeyset {
    this.#newest ??= this.#create(this.#firstFeePpk);
    return this.#newest;
  }

  /** Adds a keyset, issues with it from now on, and returns its id. */
  rotate({
    inputFeePpk = this.#active.summary.input_fee_ppk,
    finalExpirySeconds,
  }: KeysetRotation): string {
    this.#active.summary.active = false;
    this.#newest = this.#create(inputFeePpk, finalExpirySeconds);
    return this.#active.summary.id;
  }

  listSummaries() {
    const active = this.#active;
    return [...new Set([...this.#byId.values(), active])].map(({ summary }) => summary);
  }

  /** Returns a keyset with its public keys, as in `GET /v1/keys/{id}`. Default: the active keyset. */
  getWithKeys(id = this.#active.summary.id) {
    const { pair, summary } = this.#get(id);
    return { ...summary, keys: serializeMintKeys(pair.pubKeys) };
  }

  getPrivateKey(id: string, amountSat: number): Uint8Array {
    const secretKey = this.#get(id).pair.privKeys[amountSat];
    if (secretKey === undefined) {
      throw new MintRejection(11006, 'Amount outside of limit range');
    }
    return secretKey;
  }

  /** @throws MintRejection if the keyset is unknown or has expired */
  assertNotExpired(id: string): void {
    const { final_expiry = Infinity } = this.#get(id).summary;
    if (final_expiry * 1000 <= this.#now()) {
      throw keysetExpired();
    }
  }

  /** @throws MintRejection if the keyset is unknown, inactive or has expired */
  assertActive(id: string): void {
    this.assertNotExpired(id);
    if (!this.#get(id).summary.active) {
      throw new MintRejection(11000, 'keyset id inactive.', { cdk: [12002, 'Inactive Keyset'] });
    }
  }

  /** Returns the total fee for inputs, rounded up. The keyset of an input determines its fee (NUT-02). */
  calculateFeeSat(inputs: readonly { id: string }[]): number {
    const feePpk = inputs.reduce((sum, { id }) => sum + this.#get(id).summary.input_fee_ppk, 0);
    return Math.ceil(feePpk / 1000);
  }

  #get(id: string): MintKeyset {
    const keyset = this.#byId.get(id);
    if (keyset === undefined) {
      throw new MintRejection(12001, 'Keyset is not known');
    }
    return keyset;
  }

  #create(inputFeePpk: number, finalExpirySeconds?: number): MintKeyset {
    const keysetOptions = {
      input_fee_ppk: inputFeePpk,
      versionByte: ID_VERSION_BYTE,
      ...(finalExpirySeconds !== undefined && { expiry: finalExpirySeconds }),
    };
    const pair = createNewMintKeys(KEY_COUNT, undefined, keysetOptions);
    const id = pair.keysetId;
    const keyset: MintKeyset = {
      pair,
      summary: {
        id,
        unit: 'sat',
        active: true,
        input_fee_ppk: inputFeePpk,
        ...(finalExpirySeconds !== undefined && { final_expiry: finalExpirySeconds }),
      },
    };
    this.#byId.set(id, keyset);
    return keyset;
  }
}
