import { type Kysely, SqliteAdapter, sql } from 'kysely';

/** Creates all tables. `src/database/schema.ts` documents their columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createUsernames(db);
  await createUsers(db);
  await createQuotes(db);
  await createMints(db);
  await createPurchases(db);
  await createTreasury(db);
  await createZaps(db);
  await createNotifications(db);
  await createAuditAndAlerts(db);
}

async function createUsernames(db: Kysely<unknown>): Promise<void> {
  const { int, tableOptions } = dialectOf(db);
  await sql`
    create table usernames (
      name text primary key,
      pubkey text,
      status text not null check (status in ('in_use', 'pending', 'released', 'reserved')),
      since ${int} not null,
      until ${int},
      purchase text,
      request_seq ${int} not null default 0,
      unique (name, pubkey),
      check ((status = 'reserved') = (pubkey is null)),
      check ((status = 'pending') = (purchase is not null)),
      check ((status = 'released') = (until is not null))
    ) ${tableOptions}`.execute(db);
  await sql`
    create unique index usernames_in_use on usernames (pubkey) where status = 'in_use'`.execute(db);
  await sql`create index usernames_by_pubkey on usernames (pubkey)`.execute(db);
}

async function createUsers(db: Kysely<unknown>): Promise<void> {
  const { int, tableOptions, updatableTableOptions } = dialectOf(db);
  // Each payment updates the recipient's counter, which has no index: a HOT update if the page has free space.
  await sql`
    create table users (
      pubkey text primary key,
      name text unique,
      mint_url text,
      lock_quotes ${int} check (lock_quotes in (0, 1)),
      paid_count ${int} not null default 0,
      last_paid_at ${int},
      listed_until ${int} not null default 0,
      blocked_at ${int},
      block_reason text,
      unblocked_at ${int},
      member_since ${int},
      member_note text,
      foreign key (name, pubkey) references usernames (name, pubkey)
    ) ${updatableTableOptions}`.execute(db);
  await sql`
    create table invitations (
      code_hash text primary key,
      note text,
      expires_at ${int} not null
    ) ${tableOptions}`.execute(db);
}

async function createQuotes(db: Kysely<unknown>): Promise<void> {
  const { int, rowId, tableOptions } = dialectOf(db);
  await sql`
    create table quotes (
      ${rowId},
      mint_url text not null,
      quote_id text not null,
      pubkey text not null,
      request text not null,
      amount_sat ${int} not null check (amount_sat > 0),
      state text not null
        check (state in ('UNPAID', 'EXPIRED', 'INFLIGHT', 'PAID', 'ISSUED')),
      locked ${int} not null check (locked in (0, 1)),
      created_at ${int} not null,
      expires_at ${int} not null,
      paid_at ${int},
      paid_seq ${int},
      verify_token_hash text unique,
      payment_hash text,
      zap_request text,
      comment text,
      tag text,
      watch_until ${int},
      address_hashes text,
      unique (quote_id, mint_url),
      check ((paid_seq is null) = (state in ('UNPAID', 'EXPIRED'))),
      check ((paid_seq is null) = (paid_at is null))
    ) ${tableOptions}`.execute(db);
  // A page of a recipient's list is a range of this index.
  await sql`
    create unique index quotes_listed_page on quotes (pubkey, paid_seq)
    where paid_seq is not null`.execute(db);
  // For the list's `since`, and for tracing the unpaid quotes of a recipient.
  await sql`
    create index quotes_by_payment_time on quotes (pubkey, paid_at, created_at)`.execute(db);
  await sql`
    create index quotes_open_by_recipient on quotes (pubkey, created_at)
    where address_hashes is not null`.execute(db);
  // The invoices of a prefix within an hour are a range, because the hash of the shortest prefix comes first. Contains
  // all columns that the count reads, which makes it three times as fast on SQLite.
  await sql`
    create index quotes_open_by_address on quotes ((created_at / 3600000), address_hashes, created_at, expires_at)
    where address_hashes is not null`.execute(db);
  // Contains all columns that the metrics count, which makes that twenty times as fast on SQLite.
  await sql`
    create index quotes_watched_by_mint on quotes (mint_url, id, state, expires_at, watch_until)
    where watch_until is not null`.execute(db);
  await sql`create index quotes_by_payment_hash on quotes (payment_hash)`.execute(db);
  // For deleting old zap requests. A quote leaves the index when its zap request is deleted.
  await sql`
    create index quotes_issued_with_zap_request on quotes (paid_at)
    where state = 'ISSUED' and zap_request is not null`.execute(db);

  await sql`
    create table quote_events (
      ${rowId},
      quote ${int} not null references quotes (id) on delete cascade,
      at ${int} not null,
      kind text not null,
      reason text,
      detail text not null
    ) ${tableOptions}`.execute(db);
  await sql`create index quote_events_by_quote on quote_events (quote, id)`.execute(db);
  await sql`create index quote_events_by_time on quote_events (at)`.execute(db);
}

async function createMints(db: Kysely<unknown>): Promise<void> {
  const { int, tableOptions } = dialectOf(db);
  await sql`
    create table mints (
      url text primary key,
      info text not null,
      fetched_at ${int} not null,
      answered_at ${int},
      failing_since ${int},
      failure text,
      issues_after_expiry ${int} check (issues_after_expiry = 1)
    ) ${tableOptions}`.execute(db);
  // For deleting unused mints.
  await sql`create index mints_by_fetch_time on mints (fetched_at)`.execute(db);
  await sql`
    create table watch_processes (
      id text primary key,
      lease_expires_at ${int} not null,
      untrusted_proxy text,
      unpaid_quotes ${int} not null default 0
    ) ${tableOptions}`.execute(db);
  await sql`
    create table mint_leases (
      mint_url text primary key,
      process_id text not null references watch_processes (id) on delete cascade
    ) ${tableOptions}`.execute(db);
  await sql`create index mint_leases_by_process on mint_leases (process_id)`.execute(db);
}

async function createPurchases(db: Kysely<unknown>): Promise<void> {
  const { int, tableOptions } = dialectOf(db);
  await sql`
    create table username_purchases (
      id text primary key,
      pubkey text not null,
      name text not null,
      price_sat ${int} not null check (price_sat > 0),
      paid_sat ${int} not null check (paid_sat >= price_sat),
      mint_url text not null,
      state text not null check (state in ('open', 'completed', 'failed')),
      created_at ${int} not null,
      closed_at ${int},
      reason text,
      sealed_proofs text,
      outputs text not null,
      lease_holder text,
      lease_expires_at ${int},
      attempts ${int} not null default 0,
      next_attempt_at ${int},
      first_unanswered_at ${int},
      last_unanswered_at ${int},
      check ((state = 'open') = (sealed_proofs is not null)),
      check ((state = 'open') = (next_attempt_at is not null)),
      check ((state = 'open') = (closed_at is null))
    ) ${tableOptions}`.execute(db);
  await sql`
    create index username_purchases_open on username_purchases (next_attempt_at)
    where state = 'open'`.execute(db);
  await sql`
    create index username_purchases_failed on username_purchases (closed_at)
    where state = 'failed'`.execute(db);
  await sql`create index username_purchases_by_pubkey on username_purchases (pubkey)`.execute(db);
  // A proof pays for one purchase only. The hash identifies it without revealing its secret.
  await sql`
    create table username_purchase_proofs (
      secret_hash text primary key,
      purchase text not null references username_purchases (id) on delete cascade
    ) ${tableOptions}`.execute(db);
  await sql`
    create index username_purchase_proofs_by_purchase
    on username_purchase_proofs (purchase)`.execute(db);
}

async function createTreasury(db: Kysely<unknown>): Promise<void> {
  const { int, tableOptions } = dialectOf(db);
  await sql`
    create table treasury_key (
      id ${int} primary key check (id = 1),
      key_id text not null
    ) ${tableOptions}`.execute(db);
  await sql`
    create table newest_backup (
      id ${int} primary key check (id = 1),
      made_at ${int} not null
    ) ${tableOptions}`.execute(db);
  await sql`
    create table treasury_proofs (
      y text primary key,
      mint_url text not null,
      amount_sat ${int} not null check (amount_sat > 0),
      expires_at ${int},
      proof text not null
    ) ${tableOptions}`.execute(db);
  await sql`
    create index treasury_proofs_by_amount
    on treasury_proofs (mint_url, amount_sat desc, y)`.execute(db);
  await sql`
    create table treasury_withdrawals (
      id text primary key,
      mint_url text not null,
      amount_sat ${int} not null check (amount_sat > 0),
      created_at ${int} not null,
      proofs text not null
    ) ${tableOptions}`.execute(db);
}

async function createZaps(db: Kysely<unknown>): Promise<void> {
  const { int, tableOptions } = dialectOf(db);
  await sql`
    create table zap_receipts (
      id text primary key,
      quote ${int} not null unique references quotes (id) on delete cascade,
      pubkey text not null,
      zap_request_id text not null unique,
      event text not null,
      created_at ${int} not null
    ) ${tableOptions}`.execute(db);
  await sql`create index zap_receipts_by_time on zap_receipts (created_at)`.execute(db);
  // For counting the recent receipts of a recipient.
  await sql`
    create index zap_receipts_by_recipient on zap_receipts (pubkey, created_at)`.execute(db);
  await sql`
    create table zap_receipt_deliveries (
      receipt text not null references zap_receipts (id) on delete cascade,
      relay text not null,
      state text not null check (state in ('open', 'accepted', 'rejected', 'given_up')),
      attempts ${int} not null default 0,
      last_result text,
      last_attempt_at ${int},
      next_attempt_at ${int},
      give_up_at ${int} not null,
      primary key (receipt, relay),
      check ((state = 'open') = (next_attempt_at is not null))
    ) ${tableOptions}`.execute(db);
  await sql`
    create index zap_receipt_deliveries_due on zap_receipt_deliveries (relay, next_attempt_at, receipt)
    where next_attempt_at is not null`.execute(db);
  // If this index had the condition of the one above, PostgreSQL could choose it for a relay's due deliveries.
  await sql`
    create index zap_receipt_deliveries_overdue on zap_receipt_deliveries (give_up_at)
    where state = 'open'`.execute(db);
  await sql`
    create table relays (
      url text primary key,
      failures ${int} not null default 0,
      backoff_until ${int},
      last_error text,
      last_attempt_at ${int},
      accepted_at ${int}
    ) ${tableOptions}`.execute(db);
}

async function createNotifications(db: Kysely<unknown>): Promise<void> {
  const { int, rowId, tableOptions, updatableTableOptions } = dialectOf(db);
  await sql`
    create table notification_channels (
      id text primary key,
      pubkey text not null,
      kind text not null check (kind in ('webhook', 'nostr', 'web_push')),
      site text,
      sealed_target text not null,
      min_amount_sat ${int} not null check (min_amount_sat > 0),
      created_at ${int} not null,
      next_attempt_at ${int},
      not_before ${int} not null default 0,
      last_attempt_at ${int},
      failing_since ${int},
      last_error text,
      last_sent_at ${int},
      disabled_at ${int}
    ) ${updatableTableOptions}`.execute(db);
  await sql`
    create index notification_channels_by_pubkey on notification_channels (pubkey)`.execute(db);
  await sql`
    create index notification_channels_due on notification_channels (next_attempt_at)
    where next_attempt_at is not null`.execute(db);
  await sql`
    create table notifications (
      ${rowId},
      channel text not null references notification_channels (id) on delete cascade,
      quote ${int} not null references quotes (id) on delete cascade,
      event text not null check (event in ('received', 'deadline', 'last_call', 'collected')),
      status text not null check (status in ('open', 'sent', 'skipped', 'given_up')),
      due_at ${int},
      give_up_at ${int} not null,
      message_id text,
      attempts ${int} not null default 0,
      last_attempt_at ${int},
      last_result text,
      unique (quote, channel, event),
      check ((status = 'open') = (due_at is not null))
    ) ${tableOptions}`.execute(db);
  // Contains all notifications, so that the removal of a channel finds them.
  await sql`
    create index notifications_by_channel on notifications (channel, due_at)`.execute(db);
  await sql`create index notifications_to_prune on notifications (give_up_at)`.execute(db);
}

async function createAuditAndAlerts(db: Kysely<unknown>): Promise<void> {
  const { int, rowId, tableOptions } = dialectOf(db);
  await sql`
    create table audit_events (
      ${rowId},
      at ${int} not null,
      actor_kind text not null check (actor_kind in ('command', 'user')),
      actor text not null,
      action text not null,
      pubkey text,
      name text,
      before text,
      after text,
      logged ${int} not null default 0 check (logged in (0, 1))
    ) ${tableOptions}`.execute(db);
  await sql`create index audit_events_by_time on audit_events (at)`.execute(db);
  await sql`create index audit_events_to_log on audit_events (id) where logged = 0`.execute(db);
  await sql`
    create table alerts (
      name text primary key,
      checked_at ${int} not null,
      since ${int},
      text text,
      announced ${int} not null default 0 check (announced in (0, 1))
    ) ${tableOptions}`.execute(db);
}

/** Returns the parts of `create table` that the two databases write differently. */
function dialectOf(db: Kysely<unknown>) {
  return db.getExecutor().adapter instanceof SqliteAdapter
    ? {
        int: sql.raw('integer'),
        rowId: sql.raw('id integer primary key'),
        tableOptions: sql.raw('strict'),
        updatableTableOptions: sql.raw('strict'),
      }
    : {
        int: sql.raw('bigint'),
        rowId: sql.raw('id bigint generated by default as identity primary key'),
        tableOptions: sql.raw(''),
        updatableTableOptions: sql.raw('with (fillfactor = 70)'),
      };
}
