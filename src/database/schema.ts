import type { Generated } from 'kysely';

/**
 * The state of a mint quote. A recipient's list shows only quotes that are `INFLIGHT` (at the mint: `PENDING`),
 * `PAID` or `ISSUED`.
 */
export type QuoteState = 'UNPAID' | 'EXPIRED' | 'INFLIGHT' | 'PAID' | 'ISSUED';

/** The state of a zap receipt at one relay. `given_up`: the relay did not accept it within 48 hours. */
export type DeliveryState = 'open' | 'accepted' | 'rejected' | 'given_up';

/**
 * Why a username is not free.
 *
 * - `in_use`: the name resolves to its owner.
 * - `pending`: an unfinished purchase holds the name.
 * - `released`: the owner took another name. Until a grace period ends, only that owner can take the name again.
 * - `reserved`: the operator reserved the name.
 */
export type UsernameStatus = 'in_use' | 'pending' | 'released' | 'reserved';

/**
 * The tables, which `migrations/` creates on PostgreSQL and SQLite. Times are milliseconds since 1970. Flags are 0
 * for false and 1 for true.
 */
export interface DatabaseSchema {
  users: {
    pubkey: string;
    /** The username in lower case. Its row in `usernames` has the status `in_use`. */
    name: string | null;
    /** Null: the operator's default mint. */
    mint_url: string | null;
    lock_quotes: 0 | 1 | null;
    /** The number of payments received, which is the `paid_seq` of the newest one. */
    paid_count: Generated<number>;
    last_paid_at: number | null;
    /** The start of a second. Payments before it are listed; new ones are dated at or after it (ADR 40). */
    listed_until: Generated<number>;
    /** The last block; it is in force if `unblocked_at` is null. */
    blocked_at: number | null;
    block_reason: string | null;
    unblocked_at: number | null;
  };
  quotes: {
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
    /** When the payment was recorded, or the next second if wallets have seen that second (ADR 40). */
    paid_at: number | null;
    /** The position among the recipient's payments, from 1 without gaps; null before the payment. */
    paid_seq: number | null;
    /** SHA-256 of the token of the verify URL (LUD-21), hex. */
    verify_token_hash: string | null;
    /** When the service stops polling the quote at its mint; null: no longer watched. */
    watch_until: number | null;
    /** Keyed hashes of the prefixes of the payer's address, the shortest first; null unless the quote is UNPAID. */
    address_hashes: string | null;
    /** Hex; null if the invoice could not be decoded. */
    payment_hash: string | null;
    /** The payer's signed event (NIP-57); null if the payment is not a zap, or the event was deleted after a month. */
    zap_request: string | null;
    comment: string | null;
    /** The tag of the address that was paid (LUD-16), in lower case. */
    tag: string | null;
  };
  /** The history of quotes; see `QuoteEvent`. */
  quote_events: {
    id: Generated<number>;
    /** `quotes.id`. */
    quote: number;
    at: number;
    kind: string;
    /** Why an observation was rejected; null for other kinds. */
    reason: string | null;
    /** JSON. */
    detail: string;
  };
  mints: {
    url: string;
    /** A `MintInfo` in JSON. */
    info: string;
    /** When the info was last stored: at a change, and daily while the mint is in use. */
    fetched_at: number;
    /** When the mint last answered a poll, up to a minute late; null if it never did. */
    answered_at: number | null;
    /** Since when polls fail, and why; null if the last one succeeded. */
    failing_since: number | null;
    failure: string | null;
  };
  /** Which process watches a mint. Deleted with the row of the process. */
  mint_leases: {
    mint_url: string;
    process_id: string;
  };
  /** The processes that watch mints. Leases expire by the database's clock. */
  watch_processes: {
    id: string;
    lease_expires_at: number;
    /** The address of a reverse proxy that sends requests and that `TRUST_PROXY` does not contain. */
    untrusted_proxy: string | null;
    /** How many of the quotes that it watches are unpaid. */
    unpaid_quotes: Generated<number>;
  };
  /** Every username that is not free. */
  usernames: {
    name: string;
    /** The owner, buyer or former owner; null if the operator reserved the name. */
    pubkey: string | null;
    status: UsernameStatus;
    /** When the status began. For a name in use: when its owner requested it. */
    since: number;
    /** Released names only: when the former owner's grace period ends. */
    until: number | null;
    /** Pending names only: the `username_purchases` row that holds the name. */
    purchase: string | null;
    /** Counts the names that the key has requested, in their order; 0 for a reserved name. */
    request_seq: Generated<number>;
  };
  /** The journal of username purchases. */
  username_purchases: {
    id: string;
    pubkey: string;
    name: string;
    price_sat: number;
    /** The face value of the token that paid. */
    paid_sat: number;
    mint_url: string;
    state: 'open' | 'completed' | 'failed';
    created_at: number;
    closed_at: number | null;
    /** Why the purchase failed or is retried. */
    reason: string | null;
    /** The proofs of the token, sealed; null once the purchase is closed. */
    sealed_proofs: string | null;
    /** Each `OutputPlan` that may have been sent to the mint, the newest last, in JSON. */
    outputs: string;
    lease_holder: string | null;
    lease_expires_at: number | null;
    attempts: Generated<number>;
    /** Null once the purchase is closed. */
    next_attempt_at: number | null;
    /** When a swap was first sent although the mint had just reported the token as unspent. */
    first_unanswered_at: number | null;
    /** When the last swap was sent of those that have no response. */
    last_unanswered_at: number | null;
  };
  /** The proofs that paid for a purchase, by the SHA-256 of their secrets in hex. */
  username_purchase_proofs: {
    secret_hash: string;
    purchase: string;
  };
  /** One row: the id of the secret that sealed the stored ecash. */
  treasury_key: {
    id: 1;
    key_id: string;
  };
  /** The operator's ecash that can be withdrawn. */
  treasury_proofs: {
    y: string;
    mint_url: string;
    amount_sat: number;
    /** When the mint stops accepting the proof; null if never. */
    expires_at: number | null;
    /** Sealed. */
    proof: string;
  };
  /** The tokens that were withdrawn from the treasury. */
  treasury_withdrawals: {
    id: string;
    mint_url: string;
    amount_sat: number;
    created_at: number;
    /** Sealed. */
    proofs: string;
  };
  /** Zap receipts (NIP-57), at most one for each quote and for each zap request. */
  zap_receipts: {
    /** The id of the event, hex. */
    id: string;
    /** `quotes.id`. */
    quote: number;
    /** The recipient; hex. */
    pubkey: string;
    /** The id of the zap request event, hex. */
    zap_request_id: string;
    /** The signed event in JSON. All relays receive exactly this text. */
    event: string;
    /** When the payment was recorded. */
    created_at: number;
  };
  /** The outbox: one row for each receipt and relay. */
  zap_receipt_deliveries: {
    /** `zap_receipts.id`. */
    receipt: string;
    relay: string;
    state: DeliveryState;
    attempts: Generated<number>;
    /** The relay's message, or why there is none. */
    last_result: string | null;
    last_attempt_at: number | null;
    /** Null unless the delivery is open. Claiming the delivery moves this time to the end of the claim. */
    next_attempt_at: number | null;
    give_up_at: number;
  };
  /** The state of each relay that was used for a receipt. */
  relays: {
    url: string;
    /** Consecutive failures. */
    failures: Generated<number>;
    /** Nothing is sent to the relay before this time. */
    backoff_until: number | null;
    /** The error that caused the backoff; null if the relay is healthy. */
    last_error: string | null;
    last_attempt_at: number | null;
    accepted_at: number | null;
  };
}
