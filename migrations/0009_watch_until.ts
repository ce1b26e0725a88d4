import { type Kysely, sql } from 'kysely';

/**
 * The polling schedule moves from the database into the process that watches a mint: the table keeps only until when a
 * quote is watched. Unpaid quotes get a keyed hash of the payer's address group, by which they are counted.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`drop index quotes_by_next_check`.execute(db);
  await sql`drop index quotes_open_by_recipient`.execute(db);
  await sql`drop index quotes_with_unpaid_words`.execute(db);
  await sql`drop index quotes_by_payment_time`.execute(db);

  await sql`
    alter table quotes
      add column watch_until timestamptz,
      add column address_group text`.execute(db);
  await sql`
    update quotes set watch_until = case
      when paid_at is null then greatest(expires_at, created_at) + interval '24 hours'
      else paid_at + interval '7 days'
    end
    where next_check_at is not null`.execute(db);
  // From now on an expired quote loses these when it expires.
  await sql`
    update quotes set zap_request = null, comment = null
    where state = 'EXPIRED' and (zap_request is not null or comment is not null)`.execute(db);
  await sql`
    alter table quotes
      drop column next_check_at,
      drop column check_class,
      drop column checked_at,
      drop column checks`.execute(db);

  await sql`alter index quotes_by_payment rename to quotes_listed_page`.execute(db);
  // For the list's `since`, and for counting the unpaid invoices of a recipient.
  await sql`
    create index quotes_by_recipient_and_time on quotes (pubkey, paid_at, created_at)`.execute(db);
  await sql`
    create index quotes_open_by_address_group on quotes (address_group, created_at)
    where address_group is not null`.execute(db);
  await sql`
    create index quotes_watched_by_mint on quotes (mint_url, id)
    where watch_until is not null`.execute(db);

  // What older versions learned has another form. Every mint starts without a known limit.
  await sql`update mints set learnt_limits = null where learnt_limits is not null`.execute(db);
  await sql`alter table mints rename column learnt_limits to rate_limits`.execute(db);
}
