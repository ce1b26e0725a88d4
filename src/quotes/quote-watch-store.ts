import { sql } from 'kysely';
import { DatabaseStore, isAny, isAnyOf, jsonRows, lockRows } from '../database/sql.ts';
import type { QuoteState } from '../database/schema.ts';

/** A quote as the watcher holds it in memory. Times in milliseconds since 1970. */
export interface WatchedQuote {
  /** The row: `quotes.id`. */
  id: number;
  quoteId: string;
  state: QuoteState;
  createdAtMs: number;
  expiresAtMs: number;
  /** Null before the payment. */
  paidAtMs: number | null;
}

/** A stored quote with everything that is needed to decide about an observation. */
export interface HeldQuote extends WatchedQuote {
  pubkey: string;
  request: string;
  /** Hex; null if the invoice of an imported row could not be read. */
  paymentHash: string | null;
  amountSat: number;
  /** Null: no longer watched. */
  watchUntilMs: number | null;
}

/** What is written about a quote whose row the transaction has locked. */
export interface QuoteChange {
  id: number;
  state: QuoteState;
  /** Milliseconds since 1970; null: no longer watched. */
  watchUntilMs: number | null;
  /** For a first payment, its place in the recipient's list. */
  payment: { paidAtMs: number; paidSeq: number } | null;
}

/** A mint that has quotes to watch. */
export interface WatchedMint {
  mintUrl: string;
  /** The process that watches it; null if none does. */
  owner: string | null;
}

const WATCHED_COLUMNS = [
  'id',
  'quote_id as quoteId',
  'state',
  'created_at as createdAtMs',
  'expires_at as expiresAtMs',
  'paid_at as paidAtMs',
] as const;

const HELD_COLUMNS = [
  ...WATCHED_COLUMNS,
  'pubkey',
  'request',
  'payment_hash as paymentHash',
  'amount_sat as amountSat',
  'watch_until as watchUntilMs',
] as const;

const CHANGE_COLUMNS = {
  id: 'bigint',
  state: 'text',
  watch_until: 'bigint',
  paid_at: 'bigint',
  paid_seq: 'bigint',
} as const;

export class QuoteWatchStore extends DatabaseStore {
  /**
   * Every mint with watched quotes, in the order of their URLs. Reads one index entry for each mint, however
   * many quotes it has.
   */
  async watchedMints(): Promise<WatchedMint[]> {
    const { rows } = await sql<WatchedMint>`
      with recursive watched (mint_url) as (
        select min(mint_url) from quotes where watch_until is not null
        union all
        select (
          select min(quotes.mint_url) from quotes
          where watch_until is not null and quotes.mint_url > watched.mint_url
        )
        from watched where watched.mint_url is not null
      )
      select watched.mint_url as "mintUrl", mint_leases.owner
      from watched left join mint_leases on mint_leases.mint_url = watched.mint_url
      where watched.mint_url is not null
      order by watched.mint_url
    `.execute(this.db);
    return rows;
  }

  /** The largest `quotes.id`; 0 if there is none. */
  async newestId(): Promise<number> {
    const row = await this.db
      .selectFrom('quotes')
      .select('id')
      .orderBy('id', 'desc')
      .limit(1)
      .executeTakeFirst();
    return row?.id ?? 0;
  }

  /**
   * New watched quotes of all mints, in the order of their rows.
   *
   * @param afterId only rows with a larger `quotes.id`
   */
  async listNew(afterId: number, limit: number): Promise<(WatchedQuote & { mintUrl: string })[]> {
    return await this.db
      .selectFrom('quotes')
      .select([...WATCHED_COLUMNS, 'mint_url as mintUrl'])
      .where('id', '>', afterId)
      .where('watch_until', 'is not', null)
      .orderBy('id')
      .limit(limit)
      .execute();
  }

  /**
   * A mint's watched quotes in the order of their rows.
   *
   * @param afterId only rows with a larger `quotes.id`
   */
  async listWatched(mintUrl: string, afterId: number, limit: number): Promise<WatchedQuote[]> {
    return await this.db
      .selectFrom('quotes')
      .select(WATCHED_COLUMNS)
      .where('mint_url', '=', mintUrl)
      .where('watch_until', 'is not', null)
      .where('id', '>', afterId)
      .orderBy('mint_url')
      .orderBy('id')
      .limit(limit)
      .execute();
  }

  /** The quotes of a mint with these ids, as they are now; ids that we do not hold are left out. */
  async findHeld(mintUrl: string, quoteIds: readonly string[]): Promise<HeldQuote[]> {
    return await this.#held(mintUrl, quoteIds).execute();
  }

  /** As {@link findHeld}, and locks the rows in a fixed order until the transaction ends. */
  async lockHeld(mintUrl: string, quoteIds: readonly string[]): Promise<HeldQuote[]> {
    return await this.#held(mintUrl, quoteIds)
      .orderBy('id')
      .modifyEnd(lockRows(this.db, 'for no key update'))
      .execute();
  }

  /**
   * Writes changes of quotes that the transaction has locked. A quote that leaves UNPAID gives up the
   * payer's address group, and one that expires also what the payer wrote.
   */
  async applyChanges(changes: readonly QuoteChange[]): Promise<void> {
    if (changes.length === 0) {
      return;
    }
    const rows = changes.map(({ id, state, watchUntilMs, payment }) => ({
      id,
      state,
      watch_until: watchUntilMs,
      paid_at: payment?.paidAtMs ?? null,
      paid_seq: payment?.paidSeq ?? null,
    }));
    const ids = rows.map(({ id }) => id);
    // Materialized, so that SQLite parses the rows once, rather than for each quote.
    await sql`
      with changed as materialized (
        select * from ${jsonRows(this.db, CHANGE_COLUMNS, rows)} as given
      )
      update quotes set
        state = changed.state,
        watch_until = changed.watch_until,
        paid_at = coalesce(changed.paid_at, quotes.paid_at),
        paid_seq = coalesce(changed.paid_seq, quotes.paid_seq),
        address_group = null,
        zap_request = case when changed.state = 'EXPIRED' then null else quotes.zap_request end,
        comment = case when changed.state = 'EXPIRED' then null else quotes.comment end
      from changed
      where quotes.id = changed.id and ${isAny(this.db, 'quotes.id', 'bigint', ids)}
    `.execute(this.db);
  }

  #held(mintUrl: string, quoteIds: readonly string[]) {
    const rows = quoteIds.map((quote_id) => ({ quote_id }));
    const wanted = jsonRows(this.db, { quote_id: 'text' }, rows);
    // PostgreSQL may read all quotes of the mint unless each id is looked up by itself.
    const ids = sql`
      select (select id from quotes where mint_url = ${mintUrl} and quote_id = wanted.quote_id)
      from ${wanted} as wanted`;
    return this.db
      .selectFrom('quotes')
      .select(HELD_COLUMNS)
      .where(isAnyOf(this.db, 'id', ids));
  }
}
