/**
 * Ecash as mints and wallets exchange it, in their field names (NUT-00, NUT-02, NUT-07, NUT-12).
 * Amounts are whole sats: this service deals in no other unit.
 */

/** A keyset of a mint, without its keys (NUT-02). */
export interface Keyset {
  /** Hex, or base64 for the oldest ones. */
  id: string;
  unit: string;
  /** Whether the mint still signs with it; an inactive one can still be spent. */
  active: boolean;
  /** The fee for each proof of it that is spent, in thousandths of a sat. */
  inputFeePpk: number;
  /** When the mint stops taking it, in Unix seconds; newer ids are derived from it too. */
  finalExpiry?: number;
}

/** The public keys of a keyset (NUT-01). */
export interface KeysetKeys {
  id: string;
  /** Compressed point in hex, by the amount that it signs for. */
  keys: Readonly<Record<string, string>>;
}

/** A piece of ecash: whoever has it can spend it (NUT-00). */
export interface Proof {
  /** Of its keyset, in full. */
  id: string;
  amount: number;
  /** Secret indeed. */
  secret: string;
  C: string;
  /** The mint's evidence that it signed with its one public key (NUT-12). */
  dleq?: { e: string; s: string; r: string };
}

/** What a mint is asked to sign (NUT-00). */
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

/** Whether a proof can still be spent, as its mint says (NUT-07). */
export type ProofState = 'UNSPENT' | 'PENDING' | 'SPENT';

/** Which outputs an operation asked its mint to sign: with its seed, all that is needed to restore them. */
export interface OutputPlan {
  keysetId: string;
  /** Powers of two as the keyset has them; their order is that of the outputs. */
  amounts: readonly number[];
}

export function sumOfAmounts(parts: readonly { amount: number }[]): number {
  return parts.reduce((sum, { amount }) => sum + amount, 0);
}
