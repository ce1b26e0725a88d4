import type { Generated } from 'kysely';

/** A recipient's list shows only quotes that are `INFLIGHT` (at the mint: `PENDING`), `PAID` or `ISSUED`. */
export type QuoteState = 'UNPAID' | 'EXPIRED' | 'INFLIGHT' | 'PAID' | 'ISSUED';

/**
 * `pending`: an unfinished purchase holds the name. `released`: the owner took another name, and until a grace period
 * ends, only that owner can take this one again. `reserved`: by the operator.
 */
type UsernameStatus = 'in_use' | 'pending' | 'released' | 'reserved';

export type ChannelKind = 'webhook' | 'nostr' | 'web_push';

/** `deadline`: half of the time to collect a payment is left. `last_call`: ten minutes are left. */
export type NotificationEvent = 'received' | 'deadline' | 'last_call' | 'collected';

/** `skipped`: not needed any more. `given_up`: the channel did not work until `give_up_at`. */
export type NotificationStatus = 'open' | 'sent' | 'skipped' | 'given_up';

/** The tables, which `migrations/` creates. Times are milliseconds since 1970. Hashes, keys and event ids are hex. */
export interface DatabaseSchema {
  users: {
    pubkey: string;
    /** The username in lower case. Its row in `usernames` has the status `in_use`. */
    name: string | null;
    /** Null, as in `lock_quotes`: the operator's default. */
    mint_url: string | null;
    lock_quotes: 0 | 1 | null;
    /** The number of payments received, which is the `paid_seq` of the newest one. */
    paid_count: Generated<number>;
    last_paid_at: number | null;
    /** The start of a second. Wallets may have read the list until then; new payments are dated no earlier (ADR 40). */
    listed_until: Generated<number>;
    /** The last block; it is in force if `unblocked_at` is null. */
    blocked_at: number | null;
    block_reason: string | null;
    unblocked_at: number | null;
    /** Null unless the user is a member. Only members can be paid if RECIPIENTS=members. */
    member_since: number | null;
    member_note: string | null;
  };
  /** What makes a key a member, once. Deleted when it is used. */
  invitations: {
    /** SHA-256 of the code in the link. */
    code_hash: string;
    note: string | null;
    expires_at: number;
  };
  quotes: {
    id: Generated<number>;
    mint_url: string;
    quote_id: string;
    pubkey: string;
    request: string;
    amount_sat: number;
    state: QuoteState;
    locked: 0 | 1;
    created_at: number;
    expires_at: number;
    /** When the payment was recorded, or the next second if wallets had read that second already (ADR 40). */
    paid_at: number | null;
    /** The position among the recipient's payments, from 1 without gaps; null before the payment. */
    paid_seq: number | null;
    /** SHA-256 of the token of the verify URL (LUD-21). */
    verify_token_hash: string | null;
    /** When the service stops polling the quote at its mint; null: no longer watched. */
    watch_until: number | null;
    /** Keyed hashes of the prefixes of the payer's address, the shortest first; null unless the quote is UNPAID. */
    address_hashes: string | null;
    /** Null if the invoice could not be decoded. */
    payment_hash: string | null;
    /** The payer's signed event (NIP-57), which is deleted after a month. */
    zap_request: string | null;
    comment: string | null;
    /** Of the address that was paid (LUD-16), in lower case. */
    tag: string | null;
  };
  /** The history of quotes; see `QuoteEvent`. */
  quote_events: {
    id: Generated<number>;
    /** `quotes.id`. */
    quote: number;
    at: number;
    kind: string;
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
    /** When the mint last answered a poll, up to a minute late. */
    answered_at: number | null;
    /** Since when all polls have failed, and why. Null while they succeed. */
    failing_since: number | null;
    failure: string | null;
    /** 1 if the mint issues paid quotes after their expiry. Null: not known, so it may refuse. */
    issues_after_expiry: 1 | null;
  };
  /** Which process watches a mint. Deleted with the row of the process. */
  mint_leases: { mint_url: string; process_id: string };
  /** The processes that watch mints. Leases expire by the database's clock. */
  watch_processes: {
    id: string;
    lease_expires_at: number;
    /** The address of a proxy that requests to this process came through and `TRUST_PROXY` does not contain. */
    untrusted_proxy: string | null;
    unpaid_quotes: Generated<number>;
  };
  /** Every username that is not free. */
  usernames: {
    name: string;
    /** The owner, buyer or former owner; null for a reserved name. */
    pubkey: string | null;
    status: UsernameStatus;
    /** When the status began. For a name in use: when its owner requested it. */
    since: number;
    /** When the grace period of a released name ends. */
    until: number | null;
    /** The `username_purchases` row that holds a pending name. */
    purchase: string | null;
    /** The position among the names that the key has requested; 0 for a reserved name. */
    request_seq: Generated<number>;
  };
  /** The journal of username purchases. */
  username_purchases: {
    id: string;
    pubkey: string;
    name: string;
    price_sat: number;
    paid_sat: number;
    mint_url: string;
    state: 'open' | 'completed' | 'failed';
    created_at: number;
    closed_at: number | null;
    reason: string | null;
    /** Null once the purchase is closed. */
    sealed_proofs: string | null;
    /** Each `OutputPlan` that may have been sent to the mint, the newest last, in JSON. */
    outputs: string;
    lease_holder: string | null;
    lease_expires_at: number | null;
    attempts: Generated<number>;
    next_attempt_at: number | null;
    /** When a swap was first repeated, after the mint had reported the token as unspent. */
    first_unanswered_at: number | null;
    /** When the last swap was sent that has no response. */
    last_unanswered_at: number | null;
  };
  /** The proofs that paid for a purchase, by the SHA-256 of their secrets. */
  username_purchase_proofs: { secret_hash: string; purchase: string };
  /** One row: the id of the secret that sealed the stored ecash. */
  treasury_key: { id: 1; key_id: string };
  /** One row: when `nutpost backup` last wrote a backup. */
  newest_backup: { id: 1; made_at: number };
  /** The operator's ecash that can be withdrawn. */
  treasury_proofs: {
    y: string;
    mint_url: string;
    amount_sat: number;
    expires_at: number | null;
    /** Sealed. */
    proof: string;
  };
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
    id: string;
    /** `quotes.id`. */
    quote: number;
    pubkey: string;
    zap_request_id: string;
    /** The signed event in JSON. All relays receive exactly this text. */
    event: string;
    created_at: number;
  };
  /** The outbox: one row for each receipt and relay. */
  zap_receipt_deliveries: {
    receipt: string;
    relay: string;
    /** `given_up`: the relay did not accept the receipt within 48 hours. */
    state: 'open' | 'accepted' | 'rejected' | 'given_up';
    attempts: Generated<number>;
    /** The relay's message, or why there is none. */
    last_result: string | null;
    last_attempt_at: number | null;
    /** Null unless open. Claiming the delivery moves this time to the end of the claim. */
    next_attempt_at: number | null;
    give_up_at: number;
  };
  relays: {
    url: string;
    failures: Generated<number>;
    backoff_until: number | null;
    last_error: string | null;
    last_attempt_at: number | null;
    accepted_at: number | null;
  };
  /** Where recipients want to be notified of payments. */
  notification_channels: {
    id: string;
    pubkey: string;
    kind: ChannelKind;
    /** Of the host that receives the messages (`getSite`). Null: several relays receive them. */
    site: string | null;
    /** A URL and keys, and what the recipient reads, encrypted. */
    sealed_target: string;
    /** Smaller payments cause no notification. */
    min_amount_sat: number;
    created_at: number;
    /** When the next notification is due, or the end of a claim; null if there is none. */
    next_attempt_at: number | null;
    /** Until then nothing is sent: a backoff, the pause after a message, or a claim. */
    not_before: Generated<number>;
    last_attempt_at: number | null;
    failing_since: number | null;
    last_error: string | null;
    last_sent_at: number | null;
    /** When the service stopped using the channel, because it had failed for a week or is gone. */
    disabled_at: number | null;
  };
  /** The outbox of notifications: one row per payment, event and channel. */
  notifications: {
    id: Generated<number>;
    channel: string;
    /** `quotes.id`. */
    quote: number;
    event: NotificationEvent;
    status: NotificationStatus;
    /** Null unless open. */
    due_at: number | null;
    give_up_at: number;
    /** Of the message that contains this notification; null until it is first sent. */
    message_id: string | null;
    attempts: Generated<number>;
    last_attempt_at: number | null;
    last_result: string | null;
  };
  /** Who changed what (`nutpost audit`). Without secrets and addresses of clients. */
  audit_events: {
    id: Generated<number>;
    at: number;
    actor_kind: 'command' | 'user';
    /** The system user of a command, otherwise a key. */
    actor: string;
    /** A command, such as `user block`, or what a user did, such as `change settings`. */
    action: string;
    /** The key that the change is about. */
    pubkey: string | null;
    /** The username that the change is about. */
    name: string | null;
    /** What the change replaced, in JSON. */
    before: string | null;
    after: string | null;
    /** 1 once a process of the service has written the event to its log. */
    logged: Generated<0 | 1>;
  };
  /** What the operator was told at ALERT_URL. */
  alerts: {
    name: string;
    checked_at: number;
    /** When the problem began; null if there is none. */
    since: number | null;
    text: string | null;
    /** 1 if the last message was that the problem began. */
    announced: Generated<0 | 1>;
  };
}
