// Ecash with the field names of the protocol (NUT-00, NUT-02, NUT-07). Amounts are whole sats. Points and ids are hex.

export interface Keyset {
  /** In base64 for the oldest keysets. */
  id: string;
  unit: string;
  /** Whether the mint still signs with this keyset. Proofs of an inactive keyset can be spent. */
  active: boolean;
  /** The fee per spent proof, in thousandths of a sat. */
  inputFeePpk: number;
  /** When the mint stops accepting proofs of this keyset, in Unix seconds; never if 0. Newer ids are a hash of it. */
  finalExpiry?: number;
}

/** The public keys of a keyset, by amount (NUT-01). */
export interface KeysetKeys {
  id: string;
  keys: Readonly<Record<string, string>>;
}

/** Anyone who knows the fields can spend the proof. */
export interface Proof {
  /** The full id of the keyset. */
  id: string;
  amount: number;
  secret: string;
  C: string;
}

export interface BlindedMessage {
  amount: number;
  id: string;
  B_: string;
}

export interface BlindSignature {
  amount: number;
  id: string;
  C_: string;
}

export type ProofState = 'UNSPENT' | 'PENDING' | 'SPENT';

/** The outputs of a swap, from which they can be derived again together with a seed. */
export interface OutputPlan {
  keysetId: string;
  /** In the order of the outputs. The keyset has a key for each amount. */
  amounts: readonly number[];
  finalExpiry?: number;
}
