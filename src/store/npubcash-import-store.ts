import { type Kysely, sql } from 'kysely';
import type { QuoteState } from '../domain/quote.ts';
import { anyOf } from './any-of.ts';
import type { Schema } from './schema.ts';
import { type PaymentCounter, toPaymentCounter } from './user-store.ts';

/** A quote that another service made. Times in milliseconds since 1970. */
export interface NewForeignQuote {
  mintUrl: string;
  quoteId: string;
  pubkey: string;
  request: string;
  paymentHash: string | null;
  amountSat: number;
  state: QuoteState;
  locked: boolean;
  createdAtMs: number;
  expiresAtMs: number;
  zapRequest: string | null;
  /** Its place in the recipient's list; null before the payment. */
  payment: { paidAtMs: number; paidSeq: number } | null;
  /** Null: it is not watched. */
  watchUntilMs: number | null;
}

/** A quote that is here. */
export interface PresentQuote {
  id: number;
  mintUrl: string;
  quoteId: string;
  pubkey: string;
  state: QuoteState;
  /** Milliseconds since 1970. */
  paidAtMs: number | null;
}

/** What npubcash says of a key. */
export interface SaidOfUser {
  pubkey: string;
  /** Normalised; null where it names none. */
  mintUrl: string | null;
  lockQuotes: boolean;
}

/** What is known of a key: its settings here, and what npubcash said the last time. */
export interface KnownUser {
  pubkey: string;
  name: string | null;
  mintUrl: string | null;
  lockQuotes: boolean | null;
  isBlocked: boolean;
  /** Whether the key paid for the name that it has. */
  hasBoughtName: boolean;
  /** Null: it was never brought over. */
  said: {
    name: string | null;
    mintUrl: string | null;
    lockQuotes: boolean | null;
    isBlocked: boolean;
  } | null;
}

/** The lock that imports queue for, among all advisory locks of the database: any number that is ours. */
const QUEUE = 1_853_190_243;

/** Who counts a table, or cleans it for long, keeps others from counting: an import must not stand still for that. */
const COUNTED_LOCK_TIMEOUT_MS = 10_000;

/** What is brought over from an npubcash server, and what it said. */
export class NpubcashImportStore {
  readonly #db: Kysely<Schema>;

  constructor(db: Kysely<Schema>) {
    this.#db = db;
  }

  /** Waits until no other import is writing; until the transaction ends no other does. */
  async queue(): Promise<void> {
    await sql`select pg_advisory_xact_lock(${QUEUE}::bigint)`.execute(this.#db);
  }

  /** Which of these quotes are here. */
  async findPresent(
    quotes: readonly { mintUrl: string; quoteId: string }[],
  ): Promise<PresentQuote[]> {
    return (await this.#present(quotes).execute(this.#db)).rows.map(toPresentQuote);
  }

  /** As {@link findPresent}, locked until the transaction ends, in the order in which all lock quotes. */
  async lockPresent(
    quotes: readonly { mintUrl: string; quoteId: string }[],
  ): Promise<PresentQuote[]> {
    const locked = sql<PresentRow>`${this.#present(quotes)} order by id for no key update of quotes`;
    return (await locked.execute(this.#db)).rows.map(toPresentQuote);
  }

  /** The counters of these recipients, as they are at this moment; of one who has none nothing is said. */
  async counters(pubkeys: readonly string[]): Promise<PaymentCounter[]> {
    const rows = await this.#db
      .selectFrom('users')
      .select(['pubkey', 'paid_count', 'last_paid_at'])
      .where('pubkey', 'in', anyOf(pubkeys))
      .execute();
    return rows.map(toPaymentCounter);
  }

  /**
   * Keeps quotes, none of which is here, in their order.
   *
   * @returns their rows
   */
  async add(
    quotes: readonly NewForeignQuote[],
  ): Promise<{ id: number; mintUrl: string; quoteId: string }[]> {
    if (quotes.length === 0) {
      return [];
    }
    const added = quotes.map((quote) => ({
      mint_url: quote.mintUrl,
      quote_id: quote.quoteId,
      pubkey: quote.pubkey,
      request: quote.request,
      payment_hash: quote.paymentHash,
      amount_sat: quote.amountSat,
      state: quote.state,
      locked: quote.locked,
      created_at: toIso(quote.createdAtMs),
      expires_at: toIso(quote.expiresAtMs),
      zap_request: quote.zapRequest,
      paid_at: toIso(quote.payment?.paidAtMs ?? null),
      paid_seq: quote.payment?.paidSeq ?? null,
      watch_until: toIso(quote.watchUntilMs),
    }));
    const { rows } = await sql<{ id: number; mint_url: string; quote_id: string }>`
      insert into quotes (
        mint_url, quote_id, pubkey, request, payment_hash, amount_sat, state, locked, created_at,
        expires_at, zap_request, paid_at, paid_seq, watch_until
      )
      select mint_url, quote_id, pubkey, request, payment_hash, amount_sat, state, locked, created_at,
             expires_at, zap_request, paid_at, paid_seq, watch_until
      from json_to_recordset(${JSON.stringify(added)}::json) as added (
        mint_url text, quote_id text, pubkey text, request text, payment_hash text,
        amount_sat bigint, state text, locked boolean, created_at timestamptz,
        expires_at timestamptz, zap_request text, paid_at timestamptz, paid_seq bigint,
        watch_until timestamptz
      )
      returning id, mint_url, quote_id
    `.execute(this.#db);
    return rows.map((row) => ({ id: row.id, mintUrl: row.mint_url, quoteId: row.quote_id }));
  }

  /** What is known of these keys; of one of which nothing is, nothing is said. */
  async findUsers(pubkeys: readonly string[]): Promise<KnownUser[]> {
    const rows = await this.#db
      .selectFrom(sql<{ pubkey: string }>`${anyOf(pubkeys)}`.as<'asked'>(sql`asked (pubkey)`))
      .leftJoin('users', 'users.pubkey', 'asked.pubkey')
      .leftJoin('recipient_blocks as blocked', 'blocked.pubkey', 'asked.pubkey')
      .leftJoin('npubcash_users as said', 'said.pubkey', 'asked.pubkey')
      .select(['asked.pubkey', 'users.name', 'users.mint_url', 'users.lock_quotes'])
      .select(['blocked.pubkey as blocked', 'said.pubkey as said', 'said.name as said_name'])
      .select(['said.mint_url as said_mint_url', 'said.lock_quotes as said_lock_quotes'])
      .select('said.is_blocked as said_is_blocked')
      .select(({ exists, selectFrom }) =>
        exists(
          selectFrom('username_purchases as bought')
            .select('bought.id')
            .whereRef('bought.pubkey', '=', 'users.pubkey')
            .whereRef('bought.name', '=', 'users.name')
            .where('bought.state', '=', 'done'),
        ).as('has_bought_name'),
      )
      .where(sql`coalesce(users.pubkey, blocked.pubkey, said.pubkey)`, 'is not', null)
      .execute();
    return rows.map((row) => ({
      pubkey: row.pubkey,
      name: row.name,
      mintUrl: row.mint_url,
      lockQuotes: row.lock_quotes,
      isBlocked: row.blocked !== null,
      hasBoughtName: row.has_bought_name === true,
      said:
        row.said === null
          ? null
          : {
              name: row.said_name,
              mintUrl: row.said_mint_url,
              lockQuotes: row.said_lock_quotes,
              isBlocked: row.said_is_blocked ?? false,
            },
    }));
  }

  /** Gives keys, whose rows are locked, the settings that are not null here. */
  async saveSettings(
    settings: readonly { pubkey: string; mintUrl: string | null; lockQuotes: boolean | null }[],
  ): Promise<void> {
    const rows = settings.map(({ pubkey, mintUrl, lockQuotes }) => ({
      pubkey,
      mint_url: mintUrl,
      lock_quotes: lockQuotes,
    }));
    await sql`
      update users set
        mint_url = coalesce(brought.mint_url, users.mint_url),
        lock_quotes = coalesce(brought.lock_quotes, users.lock_quotes)
      from json_to_recordset(${JSON.stringify(rows)}::json)
        as brought (pubkey text, mint_url text, lock_quotes boolean)
      where users.pubkey = brought.pubkey
    `.execute(this.#db);
  }

  /** Remembers what npubcash said of settings; of a mint of which it said nothing usable, what it said before. */
  async rememberSettings(said: readonly SaidOfUser[]): Promise<void> {
    const rows = said.map(({ pubkey, mintUrl, lockQuotes }) => ({
      pubkey,
      mint_url: mintUrl,
      lock_quotes: lockQuotes,
    }));
    await sql`
      insert into npubcash_users (pubkey, mint_url, lock_quotes)
      select * from json_to_recordset(${JSON.stringify(rows)}::json)
        as said (pubkey text, mint_url text, lock_quotes boolean)
      on conflict (pubkey) do update
        set mint_url = coalesce(excluded.mint_url, npubcash_users.mint_url),
            lock_quotes = excluded.lock_quotes
    `.execute(this.#db);
  }

  /** Remembers the name that npubcash said a key has; null: none. */
  async rememberName(pubkey: string, name: string | null): Promise<void> {
    await this.#db
      .insertInto('npubcash_users')
      .values({ pubkey, mint_url: null, lock_quotes: null, name })
      .onConflict((conflict) => conflict.column('pubkey').doUpdateSet({ name }))
      .execute();
  }

  /** The keys that npubcash said are blocked, and whether they are here. */
  async saidToBeBlocked(): Promise<{ pubkey: string; isBlocked: boolean }[]> {
    const rows = await this.#db
      .selectFrom('npubcash_users as said')
      .leftJoin('recipient_blocks as blocked', 'blocked.pubkey', 'said.pubkey')
      .select(['said.pubkey', 'blocked.pubkey as blocked'])
      .where('said.is_blocked', '=', true)
      .orderBy('said.pubkey')
      .execute();
    return rows.map(({ pubkey, blocked }) => ({ pubkey, isBlocked: blocked !== null }));
  }

  /** Remembers whether npubcash said that a key is blocked. */
  async rememberBlock(pubkey: string, isBlocked: boolean): Promise<void> {
    const said = { is_blocked: isBlocked };
    await this.#db
      .insertInto('npubcash_users')
      .values({ pubkey, mint_url: null, lock_quotes: null, name: null, ...said })
      .onConflict((conflict) => conflict.column('pubkey').doUpdateSet(said))
      .execute();
  }

  /**
   * The database counts what it has, for as long as that takes, in a transaction: until then, it plans for
   * tables that are as they were. Others that have a table for long are waited for in vain.
   */
  async settle(): Promise<void> {
    await sql`set local statement_timeout = 0`.execute(this.#db);
    await sql`set local lock_timeout = ${sql.lit(COUNTED_LOCK_TIMEOUT_MS)}`.execute(this.#db);
    await sql`analyze quotes, users`.execute(this.#db);
  }

  #present(quotes: readonly { mintUrl: string; quoteId: string }[]) {
    const asked = quotes.map(({ mintUrl, quoteId }) => ({ mint_url: mintUrl, quote_id: quoteId }));
    return sql<PresentRow>`
      select id, quotes.mint_url, quotes.quote_id, pubkey, state, paid_at
      from json_to_recordset(${JSON.stringify(asked)}::json) as asked (mint_url text, quote_id text)
      join quotes on quotes.mint_url = asked.mint_url and quotes.quote_id = asked.quote_id`;
  }
}

interface PresentRow {
  id: number;
  mint_url: string;
  quote_id: string;
  pubkey: string;
  state: QuoteState;
  paid_at: Date | null;
}

function toPresentQuote(row: PresentRow): PresentQuote {
  return {
    id: row.id,
    mintUrl: row.mint_url,
    quoteId: row.quote_id,
    pubkey: row.pubkey,
    state: row.state,
    paidAtMs: row.paid_at?.getTime() ?? null,
  };
}

function toIso(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
