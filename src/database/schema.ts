import type { Generated } from 'kysely';

/**
 * The state of a stored mint quote: one expected payment to one recipient.
 *
 * `UNPAID` and `EXPIRED` are internal; a recipient's list shows the other three (spec.md section 3).
 */
export type QuoteState = 'UNPAID' | 'EXPIRED' | 'INFLIGHT' | 'PAID' | 'ISSUED';

/** The state of a zap receipt at one relay. `given_up`: no relay accepted it in 48 hours. */
export type DeliveryState = 'open' | 'accepted' | 'refused' | 'given_up';

/**
 * Why a name is not free.
 *
 * - `in_use`: its owner is paid by it.
 * - `pending`: a purchase holds it, until that has come to its end.
 * - `released`: its owner has another now, and alone can have this one back until a grace is over.
 * - `reserved`: the operator keeps it from everybody.
 */
export type UsernameStatus = 'in_use' | 'pending' | 'released' | 'reserved';

/**
 * The tables, which `migrations/` creates on both databases. Times are in milliseconds since 1970; 0 and 1 stand for
 * false and true.
 */
export interface Schema {
  users: UsersTable;
  quotes: QuotesTable;
  quote_events: QuoteEventsTable;
  mints: MintsTable;
  mint_leases: MintLeasesTable;
  watch_processes: WatchProcessesTable;
  usernames: UsernamesTable;
  username_purchases: UsernamePurchasesTable;
  username_purchase_proofs: UsernamePurchaseProofsTable;
  treasury_key: TreasuryKeyTable;
  treasury_proofs: TreasuryProofsTable;
  treasury_withdrawals: TreasuryWithdrawalsTable;
  zap_receipts: ZapReceiptsTable;
  zap_receipt_deliveries: ZapReceiptDeliveriesTable;
  relays: RelaysTable;
  npubcash_imported_rows: NpubcashImportedRowsTable;
}

interface UsersTable {
  /** Hex. */
  pubkey: string;
  /** The one that resolves, in lower case: `usernames` says that this key has it. */
  name: string | null;
  /** Null: the operator's default mint. */
  mint_url: string | null;
  /** Null: the operator's default. */
  lock_quotes: 0 | 1 | null;
  /** How many payments this key received so far: the `paid_seq` of the newest. */
  paid_count: Generated<number>;
  last_paid_at: number | null;
  /** Since when the operator keeps payers from this key; null: not blocked. */
  blocked_at: number | null;
  /** In the operator's words; null if none were given. */
  block_reason: string | null;
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
  locked: 0 | 1;
  created_at: number;
  expires_at: number;
  /** When the payment was recorded here. */
  paid_at: number | null;
  /** The recipient's own dense payment counter; null before the payment. */
  paid_seq: number | null;
  /** SHA-256 of the token of its verify URL (LUD-21), hex. */
  verify_hash: string | null;
  /** Until when its mint is asked about it; null: no longer watched. */
  watch_until: number | null;
  /** Keyed hash of the payer's address group; null unless the quote is UNPAID. */
  address_group: string | null;
  /** Hex; null where the invoice of an older row could not be read. */
  payment_hash: string | null;
  /** The payer's event as it was signed (NIP-57); null where the payment is no zap. */
  zap_request: string | null;
  /** The payer's words (LUD-12). */
  comment: string | null;
}

/** What happened to a quote, for {@link QuoteEventStore}. */
interface QuoteEventsTable {
  id: Generated<number>;
  /** `quotes.id`. */
  quote: number;
  at: number;
  kind: string;
  /** Why an observation was rejected; null for other kinds. */
  reason: string | null;
  /** JSON. */
  detail: string;
}

interface MintsTable {
  url: string;
  /** A `MintInfo` in JSON. */
  info: string;
  fetched_at: number;
  /** The learned rate limits by route, in JSON; see `mint/mint-rate-limiter.ts`. */
  rate_limits: string | null;
}

/** Which process watches a mint; the row goes with the process's own. */
interface MintLeasesTable {
  mint_url: string;
  owner: string;
}

/** The processes that watch mints, each until the database's clock says so. */
interface WatchProcessesTable {
  id: string;
  alive_until: number;
}

/** Every name that is not free, in lower case, and why it is not. */
interface UsernamesTable {
  name: string;
  /** Who has it, is buying it or may take it back; null: the operator keeps it from everybody. */
  pubkey: string | null;
  status: UsernameStatus;
  /** When it got its status; of a name in use, when its request came in. */
  since: number;
  /** Of a released name: nobody else can have it before. */
  until: number | null;
  /** Of a pending name: the purchase that holds it. */
  purchase: string | null;
  /** The order in which its key asked for names; 0 for a reserved name. */
  wish: Generated<number>;
}

/** The journal of names that are paid for. */
interface UsernamePurchasesTable {
  id: string;
  pubkey: string;
  name: string;
  price_sat: number;
  /** Face value of the token. */
  paid_sat: number;
  mint_url: string;
  state: 'open' | 'done' | 'undone';
  created_at: number;
  settled_at: number | null;
  /** Why it was undone or is retried, in a few words. */
  reason: string | null;
  /** The proofs of the token, sealed; null once it has ended. */
  token: string | null;
  /** Every `OutputPlan` that may have been sent to the mint, newest last, in JSON. */
  outputs: string;
  /** The run that is working on it. */
  lease_holder: string | null;
  lease_until: number | null;
  /** How many attempts to settle it have failed. */
  tries: Generated<number>;
  /** When the next attempt is due; null once it is settled. */
  next_try_at: number | null;
  /** When the mint first refused a repeated request; null if it did not. */
  refused_at: number | null;
}

/** Which proofs were given for what, by their Y (NUT-07). */
interface UsernamePurchaseProofsTable {
  y: string;
  purchase: string;
}

/** One row: the id of the secret that sealed the stored ecash. */
interface TreasuryKeyTable {
  id: 1;
  key_id: string;
}

/** The operator's ecash that can be withdrawn. */
interface TreasuryProofsTable {
  y: string;
  mint_url: string;
  amount_sat: number;
  /** Sealed. */
  proof: string;
}

/** The tokens that were withdrawn from the treasury. */
interface TreasuryWithdrawalsTable {
  id: string;
  mint_url: string;
  amount_sat: number;
  created_at: number;
  /** The proofs of the token, sealed. */
  proofs: string;
}

/** Zap receipts (NIP-57), at most one for each quote. */
interface ZapReceiptsTable {
  /** The id of the event, hex. */
  id: string;
  /** `quotes.id`. */
  quote: number;
  /** The signed event in JSON, the same text at every try. */
  event: string;
  /** When the payment was recorded. */
  created_at: number;
}

/** The outbox: one receipt at one relay. */
interface ZapReceiptDeliveriesTable {
  /** `zap_receipts.id`. */
  receipt: string;
  /** Normalised url. */
  relay: string;
  state: DeliveryState;
  /** How often it was sent. */
  tries: Generated<number>;
  /** The result of the last try: the relay's message, or why there is none. */
  last_word: string | null;
  last_try_at: number | null;
  /** Null unless the delivery is open; a worker that takes the row moves it ahead. */
  next_try_at: number | null;
  give_up_at: number;
}

/** Relays that receipts were sent to, or that could not be reached. */
interface RelaysTable {
  /** Normalised. */
  url: string;
  /** Consecutive failures. */
  failures: Generated<number>;
  /** Nothing is sent before. */
  rest_until: number | null;
  /** Why it rests or rested; null if it is healthy. */
  last_word: string | null;
  last_try_at: number | null;
  /** When it last accepted a receipt; null: never. */
  accepted_at: number | null;
}

/** Users and blocks of an npubcash server that were imported, so that changes made here since stay. */
interface NpubcashImportedRowsTable {
  /** Table and id, such as `l_users 12`. */
  source_row: string;
}
