import { type Kysely, sql } from 'kysely';
import { isAnyText, jsonRows, lockRows, toFlag } from '../database/dialect.ts';
import type { Schema } from '../database/schema.ts';

/** A recipient's saved settings; null where the operator's default applies. */
export interface StoredUser {
  /** Hex. */
  pubkey: string;
  name: string | null;
  mintUrl: string | null;
  lockQuotes: boolean | null;
}

/** Whom a Lightning address names. */
export interface AddressedUser extends StoredUser {
  /** By the operator: they get no new invoices. */
  isBlocked: boolean;
}

/** The counter of a recipient's payments, held by the transaction that asked for it. */
export interface PaymentCounter {
  pubkey: string;
  paidCount: number;
  lastPaidAtMs: number | null;
}

/** Recipients: their settings, names and payment counters. */
export class UserStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  /** The user with this key, or null where nothing was ever saved for it. */
  async find(pubkey: string): Promise<StoredUser | null> {
    const row = await this.#db
      .selectFrom('users')
      .select(['pubkey', 'name', 'mint_url', 'lock_quotes'])
      .where('pubkey', '=', pubkey)
      .executeTakeFirst();
    return row === undefined ? null : toUser(row);
  }

  /** The key as payers find it, in one query; where nothing was ever saved for it, too. */
  async findAddressed(pubkey: string): Promise<AddressedUser> {
    const row = await this.#db
      .selectFrom(sql<{ pubkey: string }>`(select cast(${pubkey} as text) as pubkey)`.as('asked'))
      .leftJoin('users', 'users.pubkey', 'asked.pubkey')
      .leftJoin('recipient_blocks as blocked', 'blocked.pubkey', 'asked.pubkey')
      .select(['asked.pubkey', 'name', 'mint_url', 'lock_quotes', 'blocked.pubkey as blocked'])
      .executeTakeFirstOrThrow();
    return { ...toUser(row), isBlocked: row.blocked !== null };
  }

  /** The owner of a name, given in lower case, in one query. */
  async findByName(name: string): Promise<AddressedUser | null> {
    const row = await this.#db
      .selectFrom('users')
      .leftJoin('recipient_blocks as blocked', 'blocked.pubkey', 'users.pubkey')
      .select(['users.pubkey', 'name', 'mint_url', 'lock_quotes', 'blocked.pubkey as blocked'])
      .where('name', '=', name)
      .executeTakeFirst();
    return row === undefined ? null : { ...toUser(row), isBlocked: row.blocked !== null };
  }

  /** Saves settings, and answers the user as it is then. */
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
    const row = await this.#db
      .insertInto('users')
      .values({ pubkey, ...changes })
      .onConflict((conflict) => conflict.column('pubkey').doUpdateSet(changes))
      .returning(['pubkey', 'name', 'mint_url', 'lock_quotes'])
      .executeTakeFirstOrThrow();
    return toUser(row);
  }

  /**
   * Locks the payment counters of these recipients until the transaction ends. Missing ones are made
   * first and all are locked afterwards, both in a fixed order, so that transactions wait for each other
   * but never in a circle.
   */
  async lockPaymentCounters(pubkeys: readonly string[]): Promise<PaymentCounter[]> {
    if (pubkeys.length === 0) {
      return [];
    }
    const wanted = [...new Set(pubkeys)];
    await this.makePaymentCounters(wanted);
    const { rows } = await sql<{ pubkey: string; paid_count: number; last_paid_at: number | null }>`
      select pubkey, paid_count, last_paid_at from users
      where ${isAnyText(this.#db, 'pubkey', wanted)}
      order by pubkey
      ${lockRows(this.#db, 'for no key update')}
    `.execute(this.#db);
    return rows.map((row) => ({
      pubkey: row.pubkey,
      paidCount: row.paid_count,
      lastPaidAtMs: row.last_paid_at,
    }));
  }

  /** Makes counters for those of these recipients who have none. */
  async makePaymentCounters(pubkeys: readonly string[]): Promise<void> {
    if (pubkeys.length === 0) {
      return;
    }
    const rows = pubkeys.map((pubkey) => ({ pubkey }));
    await sql`
      insert into users (pubkey)
      select pubkey from ${jsonRows(this.#db, { pubkey: 'text' }, rows)} as wanted
      where true
      order by pubkey
      on conflict (pubkey) do nothing
    `.execute(this.#db);
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
      with changed as materialized (select * from ${jsonRows(this.#db, columns, rows)} as given)
      update users set paid_count = changed.paid_count, last_paid_at = changed.last_paid_at
      from changed
      where users.pubkey = changed.pubkey and ${isAnyText(this.#db, 'users.pubkey', pubkeys)}
    `.execute(this.#db);
  }
}

function toUser(row: {
  pubkey: string;
  name: string | null;
  mint_url: string | null;
  lock_quotes: 0 | 1 | null;
}): StoredUser {
  return {
    pubkey: row.pubkey,
    name: row.name,
    mintUrl: row.mint_url,
    lockQuotes: row.lock_quotes === null ? null : row.lock_quotes === 1,
  };
}
