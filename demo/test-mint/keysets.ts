import { createNewMintKeys, type KeysetPair, serializeMintKeys } from '@cashu/cashu-ts';
import { MintRefusal } from './refusal.ts';

/** Denominations from 1 to 2^32 sats, 43 bitcoin: more than any test pays. */
const KEY_COUNT = 33;

/** Keyset ids of version 2 (NUT-02). */
const ID_VERSION_BYTE = 1;

interface MintKeyset {
  pair: KeysetPair;
  /** As `GET /v1/keysets` lists it. */
  summary: { id: string; unit: 'sat'; active: boolean; input_fee_ppk: number };
}

/** The keysets of the mint, all in sats (NUT-01, NUT-02). One is active; the others can be spent. */
export class TestMintKeysets {
  readonly #byId = new Map<string, MintKeyset>();
  #active: MintKeyset;

  /** @param inputFeePpk the fee for each input of the first keyset, in thousandths of a sat */
  constructor(inputFeePpk: number) {
    this.#active = this.#create(inputFeePpk);
  }

  /** Deactivates the active keyset and creates a new one, whose id is returned. The fee stays unless given. */
  rotate(inputFeePpk: number = this.#active.summary.input_fee_ppk): string {
    this.#active.summary.active = false;
    this.#active = this.#create(inputFeePpk);
    return this.#active.summary.id;
  }

  list() {
    return [...this.#byId.values()].map(({ summary }) => summary);
  }

  /** A keyset with its public keys, as `GET /v1/keys/{id}` sends it. Default: the active one. */
  withKeys(id = this.#active.summary.id) {
    const { pair, summary } = this.#get(id);
    return { ...summary, keys: serializeMintKeys(pair.pubKeys) };
  }

  /** The key that signs this amount. */
  secretKeyFor(id: string, amountSat: number): Uint8Array {
    const secretKey = this.#get(id).pair.privKeys[amountSat];
    if (secretKey === undefined) {
      throw new MintRefusal(11006, 'Amount outside of limit range');
    }
    return secretKey;
  }

  /** Refuses to sign with a keyset that is unknown or inactive. */
  refuseUnlessActive(id: string): void {
    if (!this.#get(id).summary.active) {
      throw new MintRefusal(11000, 'keyset id inactive.', { cdk: [12002, 'Inactive Keyset'] });
    }
  }

  /** The fee of these inputs, each by its own keyset, rounded up (NUT-02). */
  feeSat(inputs: readonly { id: string }[]): number {
    const feePpk = inputs.reduce((sum, { id }) => sum + this.#get(id).summary.input_fee_ppk, 0);
    return Math.ceil(feePpk / 1000);
  }

  #get(id: string): MintKeyset {
    const keyset = this.#byId.get(id);
    if (keyset === undefined) {
      throw new MintRefusal(12001, 'Keyset is not known');
    }
    return keyset;
  }

  #create(inputFeePpk: number): MintKeyset {
    const versioned = { input_fee_ppk: inputFeePpk, versionByte: ID_VERSION_BYTE };
    const pair = createNewMintKeys(KEY_COUNT, undefined, versioned);
    const id = pair.keysetId;
    const keyset: MintKeyset = {
      pair,
      summary: { id, unit: 'sat', active: true, input_fee_ppk: inputFeePpk },
    };
    this.#byId.set(id, keyset);
    return keyset;
  }
}
