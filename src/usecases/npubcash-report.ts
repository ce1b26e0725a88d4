/** Why a row of an npubcash server is not brought over, or not all of it. */
export type LeftOutReason =
  | 'bad_pubkey'
  | 'bad_mint_url'
  | 'bad_quote_id'
  | 'bad_amount'
  | 'other_unit'
  | 'unknown_state'
  | 'no_invoice'
  | 'mint_out_of_reach'
  | 'same_quote_twice'
  | 'quote_of_another'
  | 'same_key_twice'
  | 'changed_here'
  | 'bad_name'
  | 'has_another_name'
  | 'name_taken'
  | 'unblocked_there';

/** A row that is not brought over, or not all of it. */
export interface LeftOut {
  table: 'l_users' | 'mint_quotes' | 'recipient_blocks';
  /** Its `id`; null where its table has none. */
  id: number | null;
  reason: LeftOutReason;
  /** The `id` of the row that was taken in its place. */
  instead?: number;
  /** The key that it is about, where no row is left that would name it. Hex. */
  pubkey?: string;
}

/** What becomes of rows of one kind. */
export interface Tally {
  /** What was not here. */
  added: number;
  /** What was here, and has gone on there since. */
  changed: number;
  /** What is here already. */
  unchanged: number;
}

/** What becomes of everything. */
export interface NpubcashCounts {
  users: Tally;
  names: Tally;
  blocks: Tally;
  /** Quotes whose payment has arrived. */
  payments: Tally;
  /** All other quotes. */
  invoices: Tally;
  /** Of the payments added or changed: listed as paid now, because a wallet would pass over an earlier time. */
  dated: number;
  /** Of the quotes added: those whose mint is asked about them from now on. */
  watched: number;
  /** Quotes that wait for a run after npubcash was stopped. */
  later: number;
  leftOut: Partial<Record<LeftOutReason, number>>;
}

/** Nothing yet. */
export function noCounts(): NpubcashCounts {
  const none = () => ({ added: 0, changed: 0, unchanged: 0 });
  return {
    users: none(),
    names: none(),
    blocks: none(),
    payments: none(),
    invoices: none(),
    dated: 0,
    watched: 0,
    later: 0,
    leftOut: {},
  };
}
