import { type Kysely, sql } from 'kysely';

/** What strangers' questions are answered by. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // First what locks the most: a lock that grows meets others that do, and one of them has to go.
  await sql`alter table quotes drop constraint quotes_verify_token_key`.execute(db);
  // A verify token is found by its hash: the time in which an index compares texts tells how much of a
  // guess is right, and nobody can choose hashes. The cast is immutable, and gives the ASCII of
  // hexadecimal digits. The index is half as large as the one that it replaces, by which a process of
  // an older version looks up: it reads the whole table now. `quotes` can be neither read nor written
  // while the index is made, one to three seconds for each million rows.
  await sql`
    create unique index quotes_by_verify_token on quotes (sha256(verify_token::bytea))`.execute(db);
}
