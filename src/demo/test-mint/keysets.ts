import { createNewMintKeys, type KeysetPair, serializeMintKeys } from '@cashu/cashu-ts';
import { MintRefusal } from './refusal.ts';

/** How ids of keysets are derived (NUT-02): `v1` is `00` and 14 more digits, `v2` `01` and 64. */
export type KeysetIdVersion = 'v1' | 'v2';

/** Denominations from 1 to 2^32 sats, 43 bitcoin: more than any test pays. */
const KEY_COUNT = 33;

const VERSION_BYTES = { v1: 0, v2: 1 } as const;

interface MintKeyset {
  pair: KeysetPair;
  inputFeePpk: number;
}

/** The keysets of the mint, all in sats (NUT-01, NUT-02). One is active; the others can be spent. */
export class TestMintKeysets {
  readonly #idVersion: KeysetIdVersion;
  readonly #byId = new Map<string, MintKeyset>();
  #activeId: string;

  /** @param inputFeePpk the fee for each input of the first keyset, in thousandths of a sat */
  constructor(idVersion: KeysetIdVersion, inputFeePpk: number) {
    this.#idVersion = idVersion;
    this.#activeId = this.#create(inputFeePpk);
  }

  /**
   * Makes a new active keyset; the one before it becomes inactive.
   *
   * @param inputFeePpk default: as before
   * @returns its id
   */
  rotate(inputFeePpk: number = this.#get(this.#activeId).inputFeePpk): string {
    this.#activeId = this.#create(inputFeePpk);
    return this.#activeId;
  }

  /** Every keyset as `GET /v1/keysets` lists it. */
  list() {
    return [...this.#byId.keys()].map((id) => this.#summary(id));
  }

  /** The active keyset with its public keys, as `GET /v1/keys` gives it. */
  activeWithKeys() {
    return this.withKeys(this.#activeId);
  }

  /** A keyset with its public keys, as `GET /v1/keys/{id}` gives it; refuses where there is none. */
  withKeys(id: string) {
    return { ...this.#summary(id), keys: serializeMintKeys(this.#get(id).pair.pubKeys) };
  }

  /** The key that signs this amount; refuses where there is none. */
  secretKeyFor(id: string, amountSat: number): Uint8Array {
    const secretKey = this.#get(id).pair.privKeys[amountSat];
    if (secretKey === undefined) {
      throw new MintRefusal({ kind: 'amount_out_of_range' });
    }
    return secretKey;
  }

  /** Refuses to sign with a keyset that is unknown or inactive. */
  refuseUnlessActive(id: string): void {
    if (!this.#summary(id).active) {
      throw new MintRefusal({ kind: 'keyset_inactive' });
    }
  }

  /** What these inputs cost, each by its own keyset (NUT-02). */
  feeSat(inputs: { id: string }[]): number {
    const feePpk = inputs.reduce((sum, { id }) => sum + this.#get(id).inputFeePpk, 0);
    return Math.ceil(feePpk / 1000);
  }

  #summary(id: string) {
    const { inputFeePpk } = this.#get(id);
    return { id, unit: 'sat', active: id === this.#activeId, input_fee_ppk: inputFeePpk };
  }

  #get(id: string): MintKeyset {
    const keyset = this.#byId.get(id);
    if (keyset === undefined) {
      throw new MintRefusal({ kind: 'keyset_unknown' });
    }
    return keyset;
  }

  #create(inputFeePpk: number): string {
    const pair = createNewMintKeys(KEY_COUNT, undefined, {
      input_fee_ppk: inputFeePpk,
      versionByte: VERSION_BYTES[this.#idVersion],
    });
    this.#byId.set(pair.keysetId, { pair, inputFeePpk });
    return pair.keysetId;
  }
}
