import { type Kysely, sql } from 'kysely';

/** Who has a name and on what terms, how names are paid for, and what was earned with them. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // Which of two wishes of a key is the later one: the clocks of processes do not tell.
  await sql`create sequence username_wishes`.execute(db);
  // Every name that is not free, once. Whoever may be paid by it is in `users`.
  await sql`
    create table usernames (
      name text primary key,
      pubkey text,
      status text not null check (status in ('in_use', 'pending', 'released', 'reserved')),
      since timestamptz not null,
      until timestamptz,
      purchase text,
      wish bigint not null default nextval('username_wishes'),
      unique (name, pubkey),
      check ((status = 'reserved') = (pubkey is null)),
      check ((status = 'pending') = (purchase is not null)),
      check ((status = 'released') = (until is not null))
    )`.execute(db);
  await sql`
    insert into usernames (name, pubkey, status, since)
    select name, pubkey, 'in_use', now() from users where name is not null`.execute(db);
  await sql`
    create unique index usernames_in_use on usernames (pubkey) where status = 'in_use'`.execute(db);
  await sql`create index usernames_by_pubkey on usernames (pubkey)`.execute(db);
  await sql`
    alter table users add foreign key (name, pubkey) references usernames (name, pubkey)`.execute(
    db,
  );

  await sql`
    create table username_purchases (
      id text primary key,
      pubkey text not null,
      name text not null,
      price_sat bigint not null check (price_sat > 0),
      paid_sat bigint not null check (paid_sat >= price_sat),
      mint_url text not null,
      state text not null check (state in ('open', 'done', 'undone')),
      created_at timestamptz not null,
      settled_at timestamptz,
      reason text,
      token text,
      outputs jsonb not null,
      driver text,
      driver_until timestamptz,
      tries integer not null default 0,
      next_try_at timestamptz,
      doubted_at timestamptz,
      check ((state = 'open') = (token is not null)),
      check ((state = 'open') = (next_try_at is not null)),
      check ((state = 'open') = (settled_at is null))
    )`.execute(db);
  await sql`
    create index username_purchases_open on username_purchases (next_try_at)
    where state = 'open'`.execute(db);
  await sql`
    create index username_purchases_undone on username_purchases (settled_at)
    where state = 'undone'`.execute(db);
  await sql`create index username_purchases_by_name on username_purchases (name)`.execute(db);
  await sql`create index username_purchases_by_pubkey on username_purchases (pubkey)`.execute(db);
  // A proof buys one thing: its Y (NUT-07) names it without telling its secret.
  await sql`
    create table username_purchase_proofs (
      y text primary key,
      purchase text not null references username_purchases (id) on delete cascade
    )`.execute(db);
  await sql`
    create index username_purchase_proofs_by_purchase
    on username_purchase_proofs (purchase)`.execute(db);

  // Which secret opens what is kept: at most one row.
  await sql`
    create table treasury_key (
      id boolean primary key default true check (id),
      key_id text not null
    )`.execute(db);
  await sql`
    create table treasury_withdrawals (
      id text primary key,
      kind text not null check (kind in ('token', 'lightning', 'reclaim')),
      mint_url text not null,
      amount_sat bigint not null check (amount_sat > 0),
      state text not null check (state in ('open', 'done', 'undone')),
      created_at timestamptz not null,
      settled_at timestamptz,
      reason text,
      detail jsonb not null,
      fee_sat bigint check (fee_sat >= 0),
      redeemed_at timestamptz,
      driver text,
      driver_until timestamptz,
      tries integer not null default 0,
      next_try_at timestamptz,
      doubted_at timestamptz,
      check ((state = 'open') = (settled_at is null)),
      check ((state = 'open') = (next_try_at is not null)),
      check ((state = 'done') = (fee_sat is not null)),
      check (redeemed_at is null or (kind = 'token' and state = 'done'))
    )`.execute(db);
  await sql`
    create index treasury_withdrawals_open on treasury_withdrawals (next_try_at)
    where state = 'open'`.execute(db);
  await sql`
    create table treasury_proofs (
      y text primary key,
      mint_url text not null,
      keyset_id text not null,
      amount_sat bigint not null check (amount_sat > 0),
      proof text not null,
      earned_by text not null,
      created_at timestamptz not null,
      withdrawal text references treasury_withdrawals (id)
    )`.execute(db);
  await sql`
    create index treasury_proofs_free on treasury_proofs (mint_url, amount_sat desc, y)
    where withdrawal is null`.execute(db);
  await sql`
    create index treasury_proofs_by_withdrawal on treasury_proofs (withdrawal)
    where withdrawal is not null`.execute(db);

  await sql`
    create table recipient_blocks (
      pubkey text primary key,
      created_at timestamptz not null,
      reason text
    )`.execute(db);
}
