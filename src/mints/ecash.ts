// Ecash with the field names of the protocol (NUT-00, NUT-02, NUT-07). Amounts are whole sats. Points and ids are hex.

export interface Keyset {
  /** In base64 for the oldest keysets. */
  id: string;
  unit: string;
  /** Whether the mint still signs with this keyset. Proofs of an inactive keyset can be spent. */
  active: boolean;
  /** The fee per spent proof, in thousandths of a sat. */
  inputFeePpk: number;
  /** When the mint stops accepting proofs of this keyset, in Unix seconds; never if 0 or absent. */
  finalExpiry?: number;
}

/** The public keys of a keyset, by amount (NUT-01). */
export interface KeysetKeys {
  id: string;
  keys: Readonly<Record<string, string>>;
}

/** Anyone who knows the fields can spend the proof. */
export interface Proof {
  /** Of the keyset. */
  id: string;
  amount: number;
  secret: string;
  C: string;
}

/** An output of a swap, which the mint signs without seeing its secret. */
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

/** Describes the outputs of a swap. Together with the treasury secret and the swap's id, it suffices to derive them. */
export interface OutputPlan {
  keysetId: string;
  /** In the order of the outputs. The keyset has a key for each amount. */
  amounts: readonly number[];
  /** Of the keyset. */
  finalExpiry?: number;
}
