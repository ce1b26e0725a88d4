import type { Generated, JSONColumnType } from 'kysely';
import type { MintInfo } from '../domain/mint-info.ts';
import type { QuoteState } from '../domain/quote.ts';

/** The tables as queries see them; `migrations/` makes them. */
export interface Schema {
  users: UsersTable;
  quotes: QuotesTable;
  mints: MintsTable;
}

interface UsersTable {
  /** Hex. */
  pubkey: string;
  /** Lower case; null where none was purchased. */
  name: string | null;
  /** Null: the operator's default mint. */
  mint_url: string | null;
  /** Null: the operator's default. */
  lock_quotes: boolean | null;
  /** How many payments this key received so far: the `paid_seq` of the newest. */
  paid_count: Generated<number>;
  last_paid_at: Date | null;
}

interface QuotesTable {
  id: Generated<number>;
  mint_url: string;
  quote_id: string;
  pubkey: string;
  request: string;
  amount_sat: number;
  state: QuoteState;
  /** Whether the mint confirmed the lock (NUT-20). */
  locked: boolean;
  created_at: Date;
  expires_at: Date;
  /** When the payment was recorded here. */
  paid_at: Date | null;
  /** The recipient's own dense payment counter; null before the payment. */
  paid_seq: number | null;
  verify_token: string | null;
  /** Null: no longer watched. */
  next_check_at: Date | null;
}

interface MintsTable {
  url: string;
  info: JSONColumnType<MintInfo>;
  fetched_at: Date;
}
