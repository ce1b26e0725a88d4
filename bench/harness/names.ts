import { sql } from 'kysely';
import type { Database } from '../../src/store/database.ts';

/** The purchased names of so many recipients. */
export function names(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `bench${index + 1}`);
}

/** Gives them to as many users, from number 1. */
export async function addNames(db: Database['db'], count: number): Promise<void> {
  await sql`
    insert into usernames (name, pubkey, status, since)
    select 'bench' || n, lpad(to_hex(n), 64, '0'), 'in_use', now()
    from generate_series(1, ${count}::int) as n`.execute(db);
  await sql`
    insert into users (pubkey, name)
    select pubkey, name from usernames`.execute(db);
  await sql`analyze`.execute(db);
}
