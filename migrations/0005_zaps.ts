import { type Kysely, sql } from 'kysely';

/** What zaps and comments need: the words that come with a payment, and receipts on their way to relays. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table quotes
      add column zap_request text,
      add column comment text`.execute(db);
  // What payers wrote with invoices that ended unpaid is forgotten some day.
  await sql`
    create index quotes_with_unpaid_words on quotes (expires_at)
    where paid_seq is null and (zap_request is not null or comment is not null)`.execute(db);

  // A payment has at most one receipt; its text is kept as it was signed.
  await sql`
    create table zap_receipts (
      id text primary key,
      quote bigint not null unique references quotes (id) on delete cascade,
      event text not null,
      created_at timestamptz not null
    )`.execute(db);
  await sql`create index zap_receipts_by_time on zap_receipts (created_at)`.execute(db);

  // The outbox: one row for each receipt and relay.
  await sql`
    create table zap_receipt_deliveries (
      receipt text not null references zap_receipts (id) on delete cascade,
      relay text not null,
      state text not null check (state in ('open', 'accepted', 'refused', 'given_up')),
      tries integer not null default 0,
      last_word text,
      last_try_at timestamptz,
      next_try_at timestamptz,
      give_up_at timestamptz not null,
      primary key (receipt, relay),
      check ((state = 'open') = (next_try_at is not null))
    )`.execute(db);
  await sql`
    create index zap_receipt_deliveries_due on zap_receipt_deliveries (relay, next_try_at, receipt)
    where next_try_at is not null`.execute(db);
  // Not said in the same words as the one above: PostgreSQL, which learns that next to nothing is ever
  // open, would take this one for what is due at a relay, and read and sort all that is open.
  await sql`
    create index zap_receipt_deliveries_overdue on zap_receipt_deliveries (give_up_at)
    where state = 'open'`.execute(db);

  // What is known of a relay itself, and which process has it.
  await sql`
    create table relays (
      url text primary key,
      owner text references watch_processes (id) on delete set null,
      failures integer not null default 0,
      rest_until timestamptz,
      last_word text,
      last_try_at timestamptz,
      accepted_at timestamptz
    )`.execute(db);
  await sql`create index relays_by_owner on relays (owner)`.execute(db);
}
