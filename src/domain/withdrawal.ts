import type { OutputPlan } from './ecash.ts';

/** How the operator's money leaves the treasury, or comes back to it. */
export type WithdrawalKind =
  /** As a `cashuB` token. */
  | 'token'
  /** To a Lightning address, by a melt (NUT-05). */
  | 'lightning'
  /** A token that nobody redeemed comes back. */
  | 'reclaim';

/** What a withdrawal of each kind needs to be finished after a crash. */
export type WithdrawalDetail = TokenDetail | MeltDetail | ReclaimDetail;

export interface TokenDetail {
  kind: 'token';
  /** Every plan of outputs that may have been sent, the newest last; none where no swap is needed. */
  plans: OutputPlan[];
}

export interface ReclaimDetail {
  kind: 'reclaim';
  /** Every plan of outputs that may have been sent, the newest last. */
  plans: OutputPlan[];
  /** The withdrawal whose token it was. */
  of: string;
}

export interface MeltDetail {
  kind: 'lightning';
  /** The Lightning address. */
  to: string;
  /** 64 hex characters: what both ends of the payment know it by. */
  paymentHash: string;
  /** The melt quote, of this withdrawal alone: a mint pays a quote once. */
  quoteId: string;
  /** The most that the mint keeps for the way of the payment. */
  feeReserveSat: number;
  /** Milliseconds since 1970: afterwards the mint is not asked to pay it any more. */
  payableUntilMs: number;
  /** Outputs for what comes back (NUT-08); their amounts are for the mint to say. */
  blanks: { keysetId: string; count: number };
}
