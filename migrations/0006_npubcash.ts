import { type Kysely, sql } from 'kysely';

/** What an npubcash server said of its users, for the next time that they are brought over from there. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table npubcash_users (
      pubkey text primary key,
      mint_url text,
      lock_quotes boolean,
      name text,
      is_blocked boolean not null default false
    )`.execute(db);
}
