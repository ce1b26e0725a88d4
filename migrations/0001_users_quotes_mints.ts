import { type Kysely, sql } from 'kysely';

/** The first tables: who is paid, with what, and what each mint says of itself. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table users (
      pubkey text primary key,
      name text unique,
      mint_url text,
      lock_quotes boolean,
      paid_count bigint not null default 0,
      last_paid_at timestamptz
    )`.execute(db);

  await sql`
    create table quotes (
      id bigint generated always as identity primary key,
      mint_url text not null,
      quote_id text not null,
      pubkey text not null,
      request text not null,
      amount_sat bigint not null check (amount_sat > 0),
      state text not null
        check (state in ('UNPAID', 'EXPIRED', 'INFLIGHT', 'PAID', 'ISSUED')),
      locked boolean not null,
      created_at timestamptz not null,
      expires_at timestamptz not null,
      paid_at timestamptz,
      paid_seq bigint,
      verify_token text unique,
      next_check_at timestamptz,
      unique (mint_url, quote_id),
      check ((paid_seq is null) = (state in ('UNPAID', 'EXPIRED'))),
      check ((paid_seq is null) = (paid_at is null))
    )`.execute(db);

  // A recipient's list is read from its end, by position and not by counting rows.
  await sql`
    create unique index quotes_by_payment on quotes (pubkey, paid_seq)
    where paid_seq is not null`.execute(db);
  await sql`
    create index quotes_by_payment_time on quotes (pubkey, paid_at, paid_seq)
    where paid_seq is not null`.execute(db);
  await sql`
    create index quotes_by_next_check on quotes (mint_url, next_check_at)
    where next_check_at is not null`.execute(db);

  await sql`
    create table mints (
      url text primary key,
      info jsonb not null,
      fetched_at timestamptz not null
    )`.execute(db);
}
