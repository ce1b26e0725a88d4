import type { Generated, JSONColumnType } from 'kysely';
import type { OutputPlan } from '../domain/ecash.ts';
import type { StoredMintInfo } from '../domain/mint-info.ts';
import type { QuoteState } from '../domain/quote.ts';
import type { DeliveryState } from '../domain/receipt-delivery.ts';
import type { UsernameStatus } from '../domain/username.ts';
import type { WithdrawalDetail, WithdrawalKind } from '../domain/withdrawal.ts';

/** The tables as queries see them; `migrations/` makes them. */
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
  recipient_blocks: RecipientBlocksTable;
  zap_receipts: ZapReceiptsTable;
  zap_receipt_deliveries: ZapReceiptDeliveriesTable;
  relays: RelaysTable;
  npubcash_users: NpubcashUsersTable;
}

interface UsersTable {
  /** Hex. */
  pubkey: string;
  /** The one that resolves, in lower case: `usernames` says that this key has it. */
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
  /** Until when its mint is asked about it; null: no longer watched. */
  watch_until: Date | null;
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
  pubkey: string;
  at: Date;
  kind: string;
  detail: JSONColumnType<Record<string, unknown>>;
}

interface MintsTable {
  url: string;
  info: JSONColumnType<StoredMintInfo>;
  fetched_at: Date;
  /** The mint's rate limits, as far as a process has found them out; see `mint/mint-rate-limiter.ts`. */
  rate_limits: JSONColumnType<object> | null;
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

/** Every name that is not free, in lower case, and why it is not. */
interface UsernamesTable {
  name: string;
  /** Who has it, is buying it or may take it back; null: the operator keeps it from everybody. */
  pubkey: string | null;
  status: UsernameStatus;
  /** When it got its status; of a name in use, when its request came in. */
  since: Date;
  /** Of a released name: nobody else can have it before. */
  until: Date | null;
  /** Of a pending name: the purchase that holds it. */
  purchase: string | null;
  /** Rises with each request for a name that was taken up. */
  wish: Generated<number>;
}

/** How an operation with a mint stands, and who is at it: purchases and withdrawals alike. */
interface DrivenOperation {
  state: 'open' | 'done' | 'undone';
  created_at: Date;
  settled_at: Date | null;
  /** Why it was undone, or why it waits, in a few words. */
  reason: string | null;
  /** The run of a process that works on it, until the database's clock says so. */
  driver: string | null;
  driver_until: Date | null;
  /** How often its end was looked for. */
  tries: Generated<number>;
  /** When its end is looked for next; null once it has ended. */
  next_try_at: Date | null;
  /** When a first look said that it came to nothing. */
  doubted_at: Date | null;
}

/** The journal of names that are paid for. */
interface UsernamePurchasesTable extends DrivenOperation {
  id: string;
  pubkey: string;
  name: string;
  price_sat: number;
  /** Face value of the token. */
  paid_sat: number;
  mint_url: string;
  /** Its proofs, sealed; null once it has ended. */
  token: string | null;
  /** Every plan of outputs that was ever sent to the mint, the newest last. */
  outputs: JSONColumnType<OutputPlan[]>;
}

/** Which proofs were given for what, by their Y (NUT-07). */
interface UsernamePurchaseProofsTable {
  y: string;
  purchase: string;
}

/** One row: which secret sealed what is kept. */
interface TreasuryKeyTable {
  id: Generated<boolean>;
  key_id: string;
}

/** The operator's money: every proof that may still be worth something to us. */
interface TreasuryProofsTable {
  y: string;
  mint_url: string;
  keyset_id: string;
  amount_sat: number;
  /** Sealed. */
  proof: string;
  /** The purchase or the withdrawal whose outputs it was among. */
  earned_by: string;
  created_at: Date;
  /** The withdrawal that spends it or gave it away in a token; null while it can be withdrawn. */
  withdrawal: string | null;
}

/** The journal of what the operator takes out, and takes back. */
interface TreasuryWithdrawalsTable extends DrivenOperation {
  id: string;
  kind: WithdrawalKind;
  mint_url: string;
  /** What is to reach the operator. */
  amount_sat: number;
  /** What its kind needs to be finished after a crash. */
  detail: JSONColumnType<WithdrawalDetail>;
  /** What the mint and the way there took; null until it is done. */
  fee_sat: number | null;
  /** When it was seen that somebody redeemed the whole token. */
  redeemed_at: Date | null;
}

/** Recipients that get no new invoices. */
interface RecipientBlocksTable {
  pubkey: string;
  created_at: Date;
  reason: string | null;
}

/** Zap receipts (NIP-57), at most one for a quote. */
interface ZapReceiptsTable {
  /** The id of the event, hex. */
  id: string;
  /** `quotes.id`. */
  quote: number;
  /** The signed event in JSON, the same text at every try. */
  event: string;
  /** When the payment was recorded. */
  created_at: Date;
}

/** The way of one receipt to one relay. */
interface ZapReceiptDeliveriesTable {
  /** `zap_receipts.id`. */
  receipt: string;
  /** Normalised url. */
  relay: string;
  state: DeliveryState;
  /** How often the relay was sent it. */
  tries: Generated<number>;
  /** What came of the last try, in the relay's words where it had any. */
  last_word: string | null;
  last_try_at: Date | null;
  /** Null once it has ended. */
  next_try_at: Date | null;
  give_up_at: Date;
}

/** Relays that receipts go to. A row comes with the first try. */
interface RelaysTable {
  /** Normalised. */
  url: string;
  /** The process that sends to it now, `watch_processes.id`. */
  owner: string | null;
  /** How many turns in a row went badly. */
  failures: Generated<number>;
  /** Left alone until then. */
  rest_until: Date | null;
  /** Why it rests, or rested. */
  last_word: string | null;
  last_try_at: Date | null;
  /** When it last took something, in a turn that went well; null: it never did. */
  accepted_at: Date | null;
}

/** What an npubcash server said of a key when it was brought over from there the last time. */
interface NpubcashUsersTable {
  pubkey: string;
  /** Normalised; null where it named none. */
  mint_url: string | null;
  /** Null where only a block was brought over. */
  lock_quotes: boolean | null;
  name: string | null;
  is_blocked: Generated<boolean>;
}
