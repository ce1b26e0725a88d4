import { sql } from 'kysely';
import { DatabaseStore, isAny, jsonRows, lockRows, toFlag } from '../database/sql.ts';

/** Since when a recipient gets no new invoices, and why. */
export interface RecipientBlock {
  /** Milliseconds since 1970. */
  sinceMs: number;
  /** In the operator's words; null if none were given. */
  reason: string | null;
}

/** A recipient's saved settings; null where the operator's default applies. */
export interface StoredUser {
  /** Hex. */
  pubkey: string;
  name: string | null;
  mintUrl: string | null;
  lockQuotes: boolean | null;
  /** By the operator; null: not blocked. */
  block: RecipientBlock | null;
}

/** The counter of a recipient's payments, held by the transaction that asked for it. */
export interface PaymentCounter {
  pubkey: string;
  paidCount: number;
  lastPaidAtMs: number | null;
}

const COLUMNS = [
  'pubkey',
  'name',
  'mint_url as mintUrl',
  'lock_quotes',
  'blocked_at',
  'block_reason as reason',
] as const;

/** Recipients: their settings, names, blocks and payment counters. */
export class UserStore extends DatabaseStore {
  /** Finds the user with this key; null if nothing was ever saved for it. */
  async find(pubkey: string): Promise<StoredUser | null> {
    const users = this.db.selectFrom('users').select(COLUMNS);
    const row = await users.where('pubkey', '=', pubkey).executeTakeFirst();
    return row === undefined ? null : toUser(row);
  }

  /** Finds the owner of a name in lower case. */
  async findByName(name: string): Promise<StoredUser | null> {
    const users = this.db.selectFrom('users').select(COLUMNS);
    const row = await users.where('name', '=', name).executeTakeFirst();
    return row === undefined ? null : toUser(row);
  }

  /**
   * Blocks a key. If it is blocked already, only the reason changes, unless it is null.
   *
   * @returns the block as it is now
   */
  async block(pubkey: string, reason: string | null, nowMs: number): Promise<RecipientBlock> {
    return await this.db
      .insertInto('users')
      .values({ pubkey, blocked_at: nowMs, block_reason: reason })
      .onConflict((conflict) =>
        conflict.column('pubkey').doUpdateSet({
          blocked_at: sql`coalesce(users.blocked_at, excluded.blocked_at)`,
          block_reason: sql`coalesce(excluded.block_reason, users.block_reason)`,
        }),
      )
      .returning(['blocked_at as sinceMs', 'block_reason as reason'])
      .$narrowType<{ sinceMs: number }>()
      .executeTakeFirstOrThrow();
  }

  async unblock(pubkey: string): Promise<void> {
    await this.db
      .updateTable('users')
      .set({ blocked_at: null, block_reason: null })
      .where('pubkey', '=', pubkey)
      .execute();
  }

  /** Saves settings, and returns the user as it is then. */
  async save(
    pubkey: string,
    settings: Partial<Pick<StoredUser, 'mintUrl' | 'lockQuotes'>>,
  ): Promise<StoredUser> {
    const changes = {
      ...(settings.mintUrl === undefined ? {} : { mint_url: settings.mintUrl }),
      ...(settings.lockQuotes === undefined
        ? {}
        : { lock_quotes: settings.lockQuotes === null ? null : toFlag(settings.lockQuotes) }),
    };
    const row = await this.db
      .insertInto('users')
      .values({ pubkey, ...changes })
      .onConflict((conflict) => conflict.column('pubkey').doUpdateSet(changes))
      .returning(COLUMNS)
      .executeTakeFirstOrThrow();
    return toUser(row);
  }

  /**
   * Locks the payment counters of these recipients until the transaction ends. Missing ones are created first. Both
   * happen in a fixed order, so that transactions that wait for each other never deadlock.
   */
  async lockPaymentCounters(pubkeys: readonly string[]): Promise<PaymentCounter[]> {
    if (pubkeys.length === 0) {
      return [];
    }
    const wanted = [...new Set(pubkeys)];
    const wantedRows = wanted.map((pubkey) => ({ pubkey }));
    await sql`
      insert into users (pubkey)
      select pubkey from ${jsonRows(this.db, { pubkey: 'text' }, wantedRows)} as wanted
      where true
      order by pubkey
      on conflict (pubkey) do nothing
    `.execute(this.db);
    const { rows } = await sql<PaymentCounter>`
      select pubkey, paid_count as "paidCount", last_paid_at as "lastPaidAtMs" from users
      where ${isAny(this.db, 'pubkey', 'text', wanted)}
      order by pubkey
      ${lockRows(this.db, 'for no key update')}
    `.execute(this.db);
    return rows;
  }

  /** Writes back counters that {@link lockPaymentCounters} gave out. */
  async savePaymentCounters(counters: readonly PaymentCounter[]): Promise<void> {
    if (counters.length === 0) {
      return;
    }
    const rows = counters.map((counter) => ({
      pubkey: counter.pubkey,
      paid_count: counter.paidCount,
      last_paid_at: counter.lastPaidAtMs,
    }));
    const columns = { pubkey: 'text', paid_count: 'bigint', last_paid_at: 'bigint' } as const;
    const pubkeys = rows.map(({ pubkey }) => pubkey);
    // Materialized, so that SQLite parses the rows once, rather than for each recipient. The second condition makes
    // PostgreSQL look up each recipient in the index instead of reading the table.
    await sql`
      with changed as materialized (select * from ${jsonRows(this.db, columns, rows)} as given)
      update users set paid_count = changed.paid_count, last_paid_at = changed.last_paid_at
      from changed
      where users.pubkey = changed.pubkey and ${isAny(this.db, 'users.pubkey', 'text', pubkeys)}
    `.execute(this.db);
  }
}

function toUser(row: {
  pubkey: string;
  name: string | null;
  mintUrl: string | null;
  lock_quotes: 0 | 1 | null;
  blocked_at: number | null;
  reason: string | null;
}): StoredUser {
  const { lock_quotes, blocked_at: sinceMs, reason, ...user } = row;
  return {
    ...user,
    lockQuotes: lock_quotes === null ? null : lock_quotes === 1,
    block: sinceMs === null ? null : { sinceMs, reason },
  };
}
