import { type Kysely, sql } from 'kysely';

/**
 * Whoever changes what an address stands for tells every process, which may have kept it: also a command,
 * an import, an older version, and a statement typed by hand.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  // Told of many keys, every process would spend longer hearing of each than reading anew what it is asked
  // for: a transaction that changes more than 1,000 tells an empty text, once, which stands for any key.
  // `set_config` counts until the transaction ends, and as `pg_notify` is undone with a savepoint.
  await sql`
    create function tell_recipient_changed() returns trigger language plpgsql as $$
    declare
      told int := coalesce(nullif(current_setting('nutpost.recipients_told', true), ''), '0')::int;
    begin
      if tg_op = 'TRUNCATE' or told >= 1000 then
        perform pg_notify('nutpost_recipient_changes', '');
        return null;
      end if;
      perform set_config('nutpost.recipients_told', (told + 1)::text, true);
      if tg_op <> 'INSERT' then
        perform pg_notify('nutpost_recipient_changes', old.pubkey);
      end if;
      if tg_op <> 'DELETE' then
        perform pg_notify('nutpost_recipient_changes', new.pubkey);
      end if;
      return null;
    end
    $$`.execute(db);

  // Payments change a user's counter, and are no change of an address: they must not pay for this.
  await sql`
    create trigger tell_added after insert on users for each row
    when (new.name is not null or new.mint_url is not null or new.lock_quotes is not null)
    execute function tell_recipient_changed()`.execute(db);
  await sql`
    create trigger tell_changed after update of pubkey, name, mint_url, lock_quotes on users for each row
    when ((old.pubkey, old.name, old.mint_url, old.lock_quotes)
      is distinct from (new.pubkey, new.name, new.mint_url, new.lock_quotes))
    execute function tell_recipient_changed()`.execute(db);
  await sql`
    create trigger tell_removed after delete on users for each row
    execute function tell_recipient_changed()`.execute(db);
  await sql`
    create trigger tell_emptied after truncate on users for each statement
    execute function tell_recipient_changed()`.execute(db);
  await sql`
    create trigger tell_changed after insert or update of pubkey or delete on recipient_blocks
    for each row execute function tell_recipient_changed()`.execute(db);
  await sql`
    create trigger tell_emptied after truncate on recipient_blocks for each statement
    execute function tell_recipient_changed()`.execute(db);
}
