// Ecash with the field names of the protocol (NUT-00, NUT-02, NUT-07, NUT-12). Amounts are whole sats.

/** A keyset of a mint, without its keys (NUT-02). */
export interface Keyset {
  /** Hex, or base64 for the oldest ones. */
  id: string;
  unit: string;
  /** Whether the mint still signs with it. Proofs of an inactive keyset can still be spent. */
  active: boolean;
  /** The fee per spent proof, in thousandths of a sat. */
  inputFeePpk: number;
  /** When the mint stops accepting its proofs, in Unix seconds. Part of the hash of newer ids. */
  finalExpiry?: number;
}

/** The public keys of a keyset (NUT-01). */
export interface KeysetKeys {
  id: string;
  /** Compressed points in hex by amount. */
  keys: Readonly<Record<string, string>>;
}

/** A piece of ecash, spendable by anyone who knows its fields (NUT-00). */
export interface Proof {
  /** The full id of its keyset. */
  id: string;
  amount: number;
  secret: string;
  C: string;
  /** Proves that the mint signed with its published key (NUT-12). */
  dleq?: { e: string; s: string; r: string };
}

/** An output for the mint to sign (NUT-00). */
export interface BlindedMessage {
  amount: number;
  id: string;
  B_: string;
}

/** A mint's signature on a {@link BlindedMessage} (NUT-00, NUT-12). */
export interface BlindSignature {
  amount: number;
  id: string;
  C_: string;
  dleq?: { e: string; s: string };
}

export type ProofState = 'UNSPENT' | 'PENDING' | 'SPENT';

/** The outputs of an operation. Together with the seed, it suffices to restore them. */
export interface OutputPlan {
  keysetId: string;
  /** Amounts of the keyset, in the order of the outputs. */
  amounts: readonly number[];
}

export function sumAmounts(items: readonly { amount: number }[]): number {
  return items.reduce((sum, { amount }) => sum + amount, 0);
}
