import { type Kysely, sql } from 'kysely';
import { decode } from 'light-bolt11-decoder';

/** Invoices that are read at a time to fill in their payment hash. */
const ROWS_AT_ONCE = 1_000;

/** What several processes need to share the mints, and what tells where a payment is. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table quotes
      add column payment_hash text,
      add column check_class smallint not null default 1,
      add column checked_at timestamptz,
      add column checks integer not null default 0`.execute(db);
  await fillInPaymentHashes(db);
  await sql`create index quotes_by_payment_hash on quotes (payment_hash)`.execute(db);

  // What is due is read by class, the longest due first.
  await sql`drop index quotes_by_next_check`.execute(db);
  await sql`
    create index quotes_by_next_check on quotes (mint_url, check_class, next_check_at)
    where next_check_at is not null`.execute(db);
  await sql`
    create index quotes_open_by_recipient on quotes (pubkey, id)
    where paid_seq is null and next_check_at is not null`.execute(db);

  await sql`
    create table quote_events (
      id bigint generated always as identity primary key,
      quote bigint not null references quotes (id) on delete cascade,
      pubkey text not null,
      at timestamptz not null,
      kind text not null,
      detail jsonb not null
    )`.execute(db);
  await sql`create index quote_events_by_quote on quote_events (quote, id)`.execute(db);
  await sql`create index quote_events_by_time on quote_events (at)`.execute(db);

  await sql`
    create table watch_processes (
      id text primary key,
      alive_until timestamptz not null
    )`.execute(db);
  await sql`
    create table mint_leases (
      mint_url text primary key,
      owner text not null references watch_processes (id) on delete cascade
    )`.execute(db);
  await sql`create index mint_leases_by_owner on mint_leases (owner)`.execute(db);

  await sql`alter table mints add column learnt_limits jsonb`.execute(db);
}

async function fillInPaymentHashes(db: Kysely<unknown>): Promise<void> {
  for (let lastId = 0; ; ) {
    const { rows } = await sql<{ id: number; request: string }>`
      select id, request from quotes where id > ${lastId} order by id limit ${ROWS_AT_ONCE}
    `.execute(db);
    const newest = rows.at(-1);
    if (newest === undefined) {
      return;
    }
    const hashes = rows.map(({ id, request }) => ({ id, payment_hash: paymentHashOf(request) }));
    await sql`
      update quotes set payment_hash = read.payment_hash
      from json_to_recordset(${JSON.stringify(hashes)}::json) as read (id bigint, payment_hash text)
      where quotes.id = read.id
    `.execute(db);
    lastId = newest.id;
  }
}

function paymentHashOf(request: string): string | null {
  try {
    const { sections } = decode(request);
    const section = sections.find(({ name }) => name === 'payment_hash');
    return section !== undefined && 'value' in section ? String(section.value) : null;
  } catch {
    return null;
  }
}
