import type { Generated, JSONColumnType } from 'kysely';
import type { MintInfo } from '../domain/mint-info.ts';
import type { CheckClass } from '../domain/poll-schedule.ts';
import type { QuoteState } from '../domain/quote.ts';

/** The tables as queries see them; `migrations/` makes them. */
export interface Schema {
  users: UsersTable;
  quotes: QuotesTable;
  quote_events: QuoteEventsTable;
  mints: MintsTable;
  mint_leases: MintLeasesTable;
  watch_processes: WatchProcessesTable;
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
  check_class: Generated<CheckClass>;
  /** When the mint last answered for it; null where it has not yet. */
  checked_at: Date | null;
  /** How many such answers there were. */
  checks: Generated<number>;
  /** Hex; null where the invoice of an older row could not be read. */
  payment_hash: string | null;
}

/** What happened to a quote, for {@link QuoteEventStore}. */
interface QuoteEventsTable {
  id: Generated<number>;
  /** `quotes.id`. */
  quote: number;
  pubkey: string;
  at: Date;
  kind: string;
  detail: JSONColumnType<Record<string, unknown>>;
}

interface MintsTable {
  url: string;
  info: JSONColumnType<MintInfo>;
  fetched_at: Date;
  /** What a process learnt of the mint's limits; see `mint/request-budget.ts`. */
  learnt_limits: JSONColumnType<object> | null;
}

/** Which process watches a mint; the row goes with the process's own. */
interface MintLeasesTable {
  mint_url: string;
  owner: string;
}

/** The processes that watch mints, each until the database's clock says so. */
interface WatchProcessesTable {
  id: string;
  alive_until: Date;
}
