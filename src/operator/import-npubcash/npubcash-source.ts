import pg from 'pg';
import { connectionSettings } from '../../database/postgres.ts';
import { OperatorError, reasonOf } from '../../errors.ts';

const USERS = 'l_users';
const QUOTES = 'mint_quotes';
const BLOCKS = 'recipient_blocks';
const PROOFS = 'proofs';

/** Small enough that a page of users or quotes is one transaction here. */
const ROWS_PER_PAGE = 200;

/** A row of `l_users`. */
export interface NpubcashUser {
  id: number;
  /** In lower case, but not validated. */
  pubkey: string | null;
  name: string | null;
  mintUrl: string | null;
  lockQuotes: boolean;
}

/** A row of `mint_quotes`. Times in milliseconds since 1970; null if missing or outside 1970 to 9999. */
export interface NpubcashQuote {
  id: number;
  createdAtMs: number | null;
  unit: string | null;
  mintUrl: string | null;
  request: string | null;
  quoteId: string | null;
  expiresAtMs: number | null;
  amountSat: number | null;
  /** In lower case, but not validated. */
  pubkey: string | null;
  state: string | null;
  paidAtMs: number | null;
  locked: boolean | null;
  zapRequest: string | null;
}

/** A row of `recipient_blocks`. */
export interface NpubcashBlock {
  /** In lower case, but not validated. */
  pubkey: string | null;
  reason: string | null;
  /** Milliseconds since 1970. */
  createdAtMs: number | null;
}

/** The operator's ecash in one state. */
export interface NpubcashProofs {
  state: string | null;
  rows: number;
  amountSat: number;
}

/** The PostgreSQL database of a stopped npubcash server. It is only read. */
export class NpubcashSource {
  readonly #client: pg.Client;
  /** Versions before 3 have no blocks. */
  #hasBlocks = false;

  private constructor(client: pg.Client) {
    this.#client = client;
  }

  /**
   * Connects.
   *
   * @throws OperatorError if the database cannot be reached or does not belong to an npubcash server
   */
  static async open(url: string): Promise<NpubcashSource> {
    const source = new NpubcashSource(await connect(url));
    try {
      await source.#begin();
      return source;
    } catch (error) {
      await source.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#client.end();
  }

  /** The operator's ecash, which is not imported. */
  proofs(): Promise<NpubcashProofs[]> {
    return this.#query<NpubcashProofs>(`
      select state, count(*) as rows, coalesce(sum(amount), 0) as "amountSat"
      from ${PROOFS} group by state order by state`);
  }

  /** All users. Names and keys in lower case come first, since npubcash found users by those. */
  users(): AsyncGenerator<NpubcashUser[]> {
    return this.#pages<NpubcashUser>(`
      select id, lower(pubkey) as pubkey, nullif(name, '') as name, nullif(mint_url, '') as "mintUrl",
        coalesce(lock_quote, false) as "lockQuotes"
      from ${USERS}
      order by name = lower(name) desc nulls last, pubkey = lower(pubkey) desc, id`);
  }

  async *blocks(): AsyncGenerator<NpubcashBlock[]> {
    if (this.#hasBlocks) {
      yield* this.#pages<NpubcashBlock>(`
        select lower(pubkey) as pubkey, reason, ${milliseconds('created_at')} as "createdAtMs"
        from ${BLOCKS} order by pubkey`);
    }
  }

  /**
   * All quotes: first the paid ones, grouped by recipient, in the order of their payments; payments without a
   * time come last in their group. Then all others, the oldest first.
   */
  async *quotes(): AsyncGenerator<NpubcashQuote[]> {
    const isPaid = `state in ('PAID', 'ISSUED', 'INFLIGHT')`;
    yield* this.#quotes(
      `where ${isPaid} order by lower(pubkey) collate "C", paid_at, created_at, id`,
    );
    yield* this.#quotes(`where ${isPaid} is not true order by created_at, id`);
  }

  #quotes(condition: string): AsyncGenerator<NpubcashQuote[]> {
    return this.#pages<NpubcashQuote>(`
      select id, unit, mint_url as "mintUrl", payment_request as request, quote_id as "quoteId",
        amount as "amountSat", lower(pubkey) as pubkey, state, locked,
        ${milliseconds('created_at')} as "createdAtMs",
        ${milliseconds('expires_at')} as "expiresAtMs",
        ${milliseconds('paid_at')} as "paidAtMs",
        ${ZAP_REQUEST} as "zapRequest"
      from ${QUOTES} ${condition}`);
  }

  /** A cursor needs a transaction, which the timeouts of the role or of the database must not end. */
  async #begin(): Promise<void> {
    await this.#query(`
      begin read only;
      set local statement_timeout = 0;
      set local idle_in_transaction_session_timeout = 0`);
    const rows = await this.#query<{ name: string }>(
      'select tablename as name from pg_tables where schemaname = current_schema()',
    );
    const tables = new Set(rows.map(({ name }) => name));
    this.#hasBlocks = tables.has(BLOCKS);
    const missing = [USERS, QUOTES, PROOFS].filter((table) => !tables.has(table));
    if (missing.length > 0) {
      throw new OperatorError(
        `This is not the database of an npubcash server, version 2 or 3: it has no ${missing.join(', ')}.`,
      );
    }
  }

  async *#pages<Row>(query: string): AsyncGenerator<Row[]> {
    await this.#query(`declare page no scroll cursor for ${query}`);
    for (;;) {
      const rows = await this.#query<Row>(`fetch ${ROWS_PER_PAGE} from page`);
      if (rows.length === 0) {
        break;
      }
      yield rows;
    }
    await this.#query('close page');
  }

  async #query<Row>(query: string): Promise<Row[]> {
    try {
      return (await this.#client.query(query)).rows as Row[];
    } catch (error) {
      throw new OperatorError(`Cannot read the database of npubcash: ${reasonOf(error)}.`);
    }
  }
}

/** Older databases have a misspelt column, some have both, so that neither can be named directly. */
const ZAP_REQUEST = `coalesce(
  nullif(to_jsonb(${QUOTES}) ->> 'serialized_zap_request', ''),
  nullif(to_jsonb(${QUOTES}) ->> 'serialzed_zap_request', ''))`;

function milliseconds(column: string): string {
  return `case when ${column} between '1970-01-01 00:00Z' and '9999-12-31 00:00Z'
    then floor(extract(epoch from ${column}) * 1000)::bigint end`;
}

async function connect(url: string): Promise<pg.Client> {
  try {
    const client = new pg.Client(connectionSettings(url));
    // Without a listener, a connection that breaks between two queries would end the process.
    client.on('error', () => undefined);
    await client.connect();
    return client;
  } catch (error) {
    throw new OperatorError(
      `Cannot connect to the database of npubcash (${reasonOf(error)}). Give its URL, such as` +
        ' postgres://user@host:5432/npubcash.',
    );
  }
}
