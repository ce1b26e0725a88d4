import { type Kysely, SqliteAdapter, sql } from 'kysely';

/** All tables. `src/database/schema.ts` documents their columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createNames(db);
  await createUsers(db);
  await createQuotes(db);
  await createMints(db);
  await createPurchases(db);
  await createTreasury(db);
  await createZaps(db);
  await createImports(db);
}

/** Every name that is not free. */
async function createNames(db: Kysely<unknown>): Promise<void> {
  const { whole, strict } = dialectOf(db);
  await sql`
    create table usernames (
      name text primary key,
      pubkey text,
      status text not null check (status in ('in_use', 'pending', 'released', 'reserved')),
      since ${whole} not null,
      until ${whole},
      purchase text,
      wish ${whole} not null default 0,
      unique (name, pubkey),
      check ((status = 'reserved') = (pubkey is null)),
      check ((status = 'pending') = (purchase is not null)),
      check ((status = 'released') = (until is not null))
    ) ${strict}`.execute(db);
  await sql`
    create unique index usernames_in_use on usernames (pubkey) where status = 'in_use'`.execute(db);
  await sql`create index usernames_by_pubkey on usernames (pubkey)`.execute(db);
}

/** Recipients: their settings, the name that resolves, the payment counter, and blocks. */
async function createUsers(db: Kysely<unknown>): Promise<void> {
  const { whole, roomForUpdates } = dialectOf(db);
  // Each payment updates its recipient's counter, which is in no index. Free space on the page makes that a HOT update.
  await sql`
    create table users (
      pubkey text primary key,
      name text unique,
      mint_url text,
      lock_quotes ${whole} check (lock_quotes in (0, 1)),
      paid_count ${whole} not null default 0,
      last_paid_at ${whole},
      blocked_at ${whole},
      block_reason text,
      foreign key (name, pubkey) references usernames (name, pubkey)
    ) ${roomForUpdates}`.execute(db);
}

/** Quotes and the history of their states. */
async function createQuotes(db: Kysely<unknown>): Promise<void> {
  const { whole, rowId, strict } = dialectOf(db);
  await sql`
    create table quotes (
      ${rowId},
      mint_url text not null,
      quote_id text not null,
      pubkey text not null,
      request text not null,
      amount_sat ${whole} not null check (amount_sat > 0),
      state text not null
        check (state in ('UNPAID', 'EXPIRED', 'INFLIGHT', 'PAID', 'ISSUED')),
      locked ${whole} not null check (locked in (0, 1)),
      created_at ${whole} not null,
      expires_at ${whole} not null,
      paid_at ${whole},
      paid_seq ${whole},
      verify_hash text unique,
      payment_hash text,
      zap_request text,
      comment text,
      watch_until ${whole},
      address_group text,
      unique (mint_url, quote_id),
      check ((paid_seq is null) = (state in ('UNPAID', 'EXPIRED'))),
      check ((paid_seq is null) = (paid_at is null))
    ) ${strict}`.execute(db);
  // A page of a recipient's list is a range of this index.
  await sql`
    create unique index quotes_listed_page on quotes (pubkey, paid_seq)
    where paid_seq is not null`.execute(db);
  // For the list's `since`, and for counting the unpaid invoices of a recipient.
  await sql`
    create index quotes_open_by_recipient on quotes (pubkey, paid_at, created_at)`.execute(db);
  await sql`
    create index quotes_open_by_address_group on quotes (address_group, created_at)
    where address_group is not null`.execute(db);
  await sql`
    create index quotes_watched_by_mint on quotes (mint_url, id)
    where watch_until is not null`.execute(db);
  await sql`create index quotes_by_payment_hash on quotes (payment_hash)`.execute(db);

  await sql`
    create table quote_events (
      ${rowId},
      quote ${whole} not null references quotes (id) on delete cascade,
      at ${whole} not null,
      kind text not null,
      reason text,
      detail text not null
    ) ${strict}`.execute(db);
  await sql`create index quote_events_by_quote on quote_events (quote, id)`.execute(db);
  await sql`create index quote_events_by_time on quote_events (at)`.execute(db);
}

/** Mints, and which process watches each. */
async function createMints(db: Kysely<unknown>): Promise<void> {
  const { whole, strict } = dialectOf(db);
  await sql`
    create table mints (
      url text primary key,
      info text not null,
      fetched_at ${whole} not null,
      rate_limits text
    ) ${strict}`.execute(db);
  await sql`
    create table watch_processes (
      id text primary key,
      alive_until ${whole} not null
    ) ${strict}`.execute(db);
  await sql`
    create table mint_leases (
      mint_url text primary key,
      owner text not null references watch_processes (id) on delete cascade
    ) ${strict}`.execute(db);
  await sql`create index mint_leases_by_owner on mint_leases (owner)`.execute(db);
}

/** The journal of username purchases. */
async function createPurchases(db: Kysely<unknown>): Promise<void> {
  const { whole, strict } = dialectOf(db);
  await sql`
    create table username_purchases (
      id text primary key,
      pubkey text not null,
      name text not null,
      price_sat ${whole} not null check (price_sat > 0),
      paid_sat ${whole} not null check (paid_sat >= price_sat),
      mint_url text not null,
      state text not null check (state in ('open', 'done', 'undone')),
      created_at ${whole} not null,
      settled_at ${whole},
      reason text,
      token text,
      outputs text not null,
      lease_holder text,
      lease_until ${whole},
      tries ${whole} not null default 0,
      next_try_at ${whole},
      refused_at ${whole},
      check ((state = 'open') = (token is not null)),
      check ((state = 'open') = (next_try_at is not null)),
      check ((state = 'open') = (settled_at is null))
    ) ${strict}`.execute(db);
  await sql`
    create index username_purchases_open on username_purchases (next_try_at)
    where state = 'open'`.execute(db);
  await sql`
    create index username_purchases_undone on username_purchases (settled_at)
    where state = 'undone'`.execute(db);
  await sql`create index username_purchases_by_pubkey on username_purchases (pubkey)`.execute(db);
  // A proof pays for one purchase. Its Y (NUT-07) identifies it without its secret.
  await sql`
    create table username_purchase_proofs (
      y text primary key,
      purchase text not null references username_purchases (id) on delete cascade
    ) ${strict}`.execute(db);
  await sql`
    create index username_purchase_proofs_by_purchase
    on username_purchase_proofs (purchase)`.execute(db);
}

/** The ecash that was earned, and the tokens that were withdrawn. */
async function createTreasury(db: Kysely<unknown>): Promise<void> {
  const { whole, strict } = dialectOf(db);
  // The id of the treasury secret; at most one row.
  await sql`
    create table treasury_key (
      id ${whole} primary key check (id = 1),
      key_id text not null
    ) ${strict}`.execute(db);
  // Sealed ecash that can be withdrawn.
  await sql`
    create table treasury_proofs (
      y text primary key,
      mint_url text not null,
      amount_sat ${whole} not null check (amount_sat > 0),
      proof text not null
    ) ${strict}`.execute(db);
  await sql`
    create index treasury_proofs_by_amount
    on treasury_proofs (mint_url, amount_sat desc, y)`.execute(db);
  // The proofs of each withdrawn token, sealed.
  await sql`
    create table treasury_withdrawals (
      id text primary key,
      mint_url text not null,
      amount_sat ${whole} not null check (amount_sat > 0),
      created_at ${whole} not null,
      proofs text not null
    ) ${strict}`.execute(db);
}

/** Zap receipts, the outbox that delivers them, and the state of each relay. */
async function createZaps(db: Kysely<unknown>): Promise<void> {
  const { whole, strict } = dialectOf(db);
  // A payment has at most one receipt, which is sent as it was signed.
  await sql`
    create table zap_receipts (
      id text primary key,
      quote ${whole} not null unique references quotes (id) on delete cascade,
      event text not null,
      created_at ${whole} not null
    ) ${strict}`.execute(db);
  await sql`create index zap_receipts_by_time on zap_receipts (created_at)`.execute(db);
  // The outbox: one row for each receipt and relay. A worker that takes a row moves its next try ahead by some seconds.
  await sql`
    create table zap_receipt_deliveries (
      receipt text not null references zap_receipts (id) on delete cascade,
      relay text not null,
      state text not null check (state in ('open', 'accepted', 'refused', 'given_up')),
      tries ${whole} not null default 0,
      last_word text,
      last_try_at ${whole},
      next_try_at ${whole},
      give_up_at ${whole} not null,
      primary key (receipt, relay),
      check ((state = 'open') = (next_try_at is not null))
    ) ${strict}`.execute(db);
  await sql`
    create index zap_receipt_deliveries_due on zap_receipt_deliveries (relay, next_try_at, receipt)
    where next_try_at is not null`.execute(db);
  // With the condition of the index above, PostgreSQL could choose this one for what is due at a relay.
  await sql`
    create index zap_receipt_deliveries_overdue on zap_receipt_deliveries (give_up_at)
    where state = 'open'`.execute(db);
  await sql`
    create table relays (
      url text primary key,
      failures ${whole} not null default 0,
      rest_until ${whole},
      last_word text,
      last_try_at ${whole},
      accepted_at ${whole}
    ) ${strict}`.execute(db);
}

/** Rows of an npubcash server that were imported. Later imports leave them alone. */
async function createImports(db: Kysely<unknown>): Promise<void> {
  const { strict } = dialectOf(db);
  await sql`create table npubcash_imported_rows (source_row text primary key) ${strict}`.execute(
    db,
  );
}

/** What the two databases write differently in a table. Times are in milliseconds since 1970, and 0 or 1 stands for a truth value. */
function dialectOf(db: Kysely<unknown>) {
  return db.getExecutor().adapter instanceof SqliteAdapter
    ? {
        whole: sql.raw('integer'),
        rowId: sql.raw('id integer primary key'),
        strict: sql.raw('strict'),
        roomForUpdates: sql.raw('strict'),
      }
    : {
        whole: sql.raw('bigint'),
        rowId: sql.raw('id bigint generated by default as identity primary key'),
        strict: sql.raw(''),
        roomForUpdates: sql.raw('with (fillfactor = 70)'),
      };
}
