import pg from 'pg';
import { OperatorError } from '../domain/errors.ts';
import { connectionSettings } from './server.ts';

/** The tables of an npubcash server that are read; all that an import needs is in the first two. */
const USERS = 'l_users';
const QUOTES = 'mint_quotes';
const BLOCKS = 'recipient_blocks';
const PROOFS = 'proofs';

/** Columns that every version of npubcash has, as far as they are read. */
const REQUIRED: Readonly<Record<string, readonly string[]>> = {
  [USERS]: ['id', 'pubkey', 'name', 'mint_url', 'lock_quote'],
  [QUOTES]: [
    ...['id', 'created_at', 'unit', 'mint_url', 'payment_request', 'quote_id', 'expires_at'],
    ...['amount', 'pubkey', 'state', 'paid_at', 'locked'],
  ],
};

const BLOCK_COLUMNS = ['pubkey', 'created_at', 'reason'];

const PROOF_COLUMNS = ['amount', 'state'];

/** The right name and the misspelt one of older databases; both may exist. */
const ZAP_REQUEST_COLUMNS = ['serialized_zap_request', 'serialzed_zap_request'];

/** Rows that are fetched at a time: some hundred kilobytes, most of it invoices and zap requests. */
const ROWS_AT_ONCE = 500;

/** A row of a user. */
export interface NpubcashUser {
  id: number;
  /** As it stands there: case and validity are nobody's promise. */
  pubkey: string | null;
  name: string | null;
  mintUrl: string | null;
  lockQuote: boolean | null;
}

/** A row of a quote, as it stands there. Times in milliseconds since 1970; those of no calendar are null. */
export interface NpubcashQuote {
  id: number;
  createdAtMs: number | null;
  unit: string | null;
  mintUrl: string | null;
  request: string | null;
  quoteId: string | null;
  expiresAtMs: number | null;
  amountSat: number | null;
  pubkey: string | null;
  state: string | null;
  paidAtMs: number | null;
  locked: boolean | null;
  zapRequest: string | null;
}

/** A blocked key, as it stands there. */
export interface NpubcashBlock {
  pubkey: string | null;
  reason: string | null;
  /** Milliseconds since 1970. */
  createdAtMs: number | null;
}

/** How many rows a table has. */
export interface TableSize {
  table: string;
  /** Null where the role may not read it. */
  rows: number | null;
}

/** What there is, counted. */
export interface NpubcashSurvey {
  /** Everything is read as it stood then or shortly after; by the clock there, since 1970. */
  takenAtMs: number;
  /** How many others are connected to that database. */
  otherConnections: number;
  users: number;
  quotes: number;
  /** Of the operator's ecash by its state there, in sats. */
  proofs: { state: string | null; rows: number; amountSat: number }[];
  /** Tables of which nothing is read, and proofs where they may not be. */
  others: TableSize[];
}

/**
 * The database of an npubcash server, read as it stood at one moment, in a transaction that can change
 * nothing: the server may go on working meanwhile.
 */
export class NpubcashSource {
  readonly #client: pg.Client;
  readonly #columns: ReadonlyMap<string, readonly string[]>;

  private constructor(client: pg.Client, columns: ReadonlyMap<string, readonly string[]>) {
    this.#client = client;
    this.#columns = columns;
  }

  /**
   * Connects.
   *
   * @param url of PostgreSQL
   * @throws OperatorError where it cannot be reached, or is no database of npubcash
   */
  static async open(url: string): Promise<NpubcashSource> {
    const client = await connect(url);
    try {
      await client.query('begin transaction isolation level repeatable read read only');
      // Said outright, since a role or a database may have timeouts of its own.
      await client.query('set local statement_timeout = 0');
      await client.query('set local idle_in_transaction_session_timeout = 0');
      const columns = await readColumns(client);
      refuseStrangeTables(columns);
      return new NpubcashSource(client, columns);
    } catch (error) {
      await client.end();
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#client.end();
  }

  /** Counts the rows of every table. */
  async survey(): Promise<NpubcashSurvey> {
    const mayReadProofs = PROOF_COLUMNS.every((name) => this.#mayRead(PROOFS, name));
    const told = new Set([USERS, QUOTES, BLOCKS, ...(mayReadProofs ? [PROOFS] : [])]);
    const others: TableSize[] = [];
    for (const table of [...this.#columns.keys()].filter((each) => !told.has(each)).sort()) {
      const isReadable = table !== PROOFS && this.#columns.get(table)?.length !== 0;
      others.push({ table, rows: isReadable ? await this.#count(table) : null });
    }
    return {
      ...(await this.#lookAround()),
      users: await this.#count(USERS),
      quotes: await this.#count(QUOTES),
      proofs: mayReadProofs ? await this.#countProofs() : [],
      others,
    };
  }

  /** All users, the rows of one key one after the other: spelt as keys are before others, new before old. */
  users(): AsyncGenerator<NpubcashUser[]> {
    return this.#read<NpubcashUser>(`
      select id, pubkey, name, mint_url as "mintUrl", lock_quote as "lockQuote" from ${USERS}
      order by ${plain('pubkey')}, pubkey = ${plain('pubkey')} desc, id desc`);
  }

  /** Whether npubcash can block keys: older versions cannot. */
  get hasBlocks(): boolean {
    return this.#columns.has(BLOCKS);
  }

  /** Keys that get no invoices. */
  async *blocks(): AsyncGenerator<NpubcashBlock[]> {
    if (this.hasBlocks) {
      yield* this.#read<NpubcashBlock>(`
        select pubkey, reason, ${milliseconds('created_at')} as "createdAtMs"
        from ${BLOCKS} order by pubkey`);
    }
  }

  /** Every spelling of a mint that quotes have. */
  async mintSpellings(): Promise<string[]> {
    const rows = await this.#query<{ mint_url: string }>(
      `select distinct mint_url from ${QUOTES} where mint_url is not null`,
    );
    return rows.map((row) => row.mint_url);
  }

  /**
   * Quotes of which there are several rows with one mint and one id, these one after the other.
   *
   * @param mints the one url that each spelling means
   */
  copiedQuotes(mints: ReadonlyMap<string, string>): AsyncGenerator<NpubcashQuote[]> {
    const spellings = [...mints].map(([spelling, url]) => ({ spelling, url }));
    return this.#read<NpubcashQuote>(
      `select ${this.#quoteColumns()} from ${QUOTES} join (
         select id, known.url, count(*) over (partition by known.url, quote_id) as copies
         from ${QUOTES} join json_to_recordset($1::json) as known (spelling text, url text)
           on known.spelling = mint_url
       ) as copied using (id)
       where copies > 1
       order by copied.url, quote_id, id`,
      [JSON.stringify(spellings)],
    );
  }

  /** Paid quotes, each recipient's one after the other in the order of their payments. */
  paidQuotes(): AsyncGenerator<NpubcashQuote[]> {
    return this.#quotes(`where ${IS_PAID} ${BY_RECIPIENT_AND_PAYMENT}`);
  }

  /** Those of {@link paidQuotes} that are asked for, by `NpubcashQuote.id`. */
  paidQuotesById(ids: readonly number[]): AsyncGenerator<NpubcashQuote[]> {
    return this.#quotes(`where id = any($1::bigint[]) ${BY_RECIPIENT_AND_PAYMENT}`, [ids]);
  }

  /** All other quotes, the oldest first. */
  otherQuotes(): AsyncGenerator<NpubcashQuote[]> {
    return this.#quotes(`where ${IS_PAID} is not true order by created_at, id`);
  }

  #mayRead(table: string, column: string): boolean {
    return this.#columns.get(table)?.includes(column) ?? false;
  }

  #quotes(where: string, values: unknown[] = []): AsyncGenerator<NpubcashQuote[]> {
    return this.#read<NpubcashQuote>(
      `select ${this.#quoteColumns()} from ${QUOTES} ${where}`,
      values,
    );
  }

  #quoteColumns(): string {
    const zapRequests = ZAP_REQUEST_COLUMNS.filter((name) => this.#mayRead(QUOTES, name)).map(
      (name) => `nullif(${name}, '')`,
    );
    return `
      id, unit, mint_url as "mintUrl", payment_request as request, quote_id as "quoteId",
      amount as "amountSat", pubkey, state, locked,
      ${milliseconds('created_at')} as "createdAtMs",
      ${milliseconds('expires_at')} as "expiresAtMs",
      ${milliseconds('paid_at')} as "paidAtMs",
      coalesce(${[...zapRequests, 'null'].join(', ')}) as "zapRequest"`;
  }

  /** Reads by a cursor: a page is in memory at a time. One is read to its end, or to the first error. */
  async *#read<Row>(query: string, values: unknown[] = []): AsyncGenerator<Row[]> {
    await this.#query(`declare page no scroll cursor for ${query}`, values);
    try {
      for (;;) {
        const rows = await this.#query<Row>(`fetch ${ROWS_AT_ONCE} from page`);
        if (rows.length === 0) {
          return;
        }
        yield rows;
      }
    } finally {
      // Where the connection broke, there is nothing to close, and that error is the one to be told.
      await this.#client.query('close page').catch(() => undefined);
    }
  }

  async #count(table: string): Promise<number> {
    const [counted] = await this.#query<{ rows: number }>(
      `select count(*) as rows from ${pg.escapeIdentifier(table)}`,
    );
    return counted?.rows ?? 0;
  }

  /** Of others' sessions a role may see no more than whose they are; those of no role are the server's own. */
  async #lookAround(): Promise<Pick<NpubcashSurvey, 'takenAtMs' | 'otherConnections'>> {
    const [seen] = await this.#query<{ takenAtMs: number; otherConnections: number }>(
      `select ${milliseconds('now()')} as "takenAtMs", count(*) as "otherConnections"
       from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and usesysid is not null
         and coalesce(backend_type, 'client backend') = 'client backend'`,
    );
    return seen ?? { takenAtMs: 0, otherConnections: 0 };
  }

  #countProofs(): Promise<NpubcashSurvey['proofs']> {
    return this.#query(`
      select state, count(*) as rows, coalesce(sum(amount), 0) as "amountSat"
      from ${PROOFS} group by state order by state`);
  }

  async #query<Row>(query: string, values: unknown[] = []): Promise<Row[]> {
    try {
      return (await this.#client.query(query, values)).rows as Row[];
    } catch (error) {
      throw new OperatorError(`The database of npubcash could not be read: ${reasonOf(error)}.`);
    }
  }
}

const IS_PAID = `${plain('state', 'upper')} in ('PAID', 'ISSUED', 'INFLIGHT')`;

const BY_RECIPIENT_AND_PAYMENT = `
  order by ${plain('pubkey')}, coalesce(paid_at, created_at), id`;

/** In one case, and in the order of bytes. */
function plain(column: string, inCase: 'lower' | 'upper' = 'lower'): string {
  return `${inCase}(${column}) collate "C"`;
}

/** Whole milliseconds since 1970, of what is no earlier and JavaScript's calendar knows. */
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
      `The database of npubcash cannot be reached (${reasonOf(error)}): give its url, as in` +
        ' postgres://user@host:5432/npubcash.',
    );
  }
}

/** Of a host with several addresses the error has a code and no message. */
function reasonOf(error: unknown): string {
  const { message = '', code = '' } = error as Error & { code?: string };
  return message || code;
}

/** The columns that may be read of each table that stands beside the quotes; none where there are no quotes. */
async function readColumns(client: pg.Client): Promise<Map<string, readonly string[]>> {
  const { rows } = await client.query<{ table: string; columns: string[] }>(
    `select relname::text as table, coalesce(
       array_agg(attname::text)
         filter (where has_column_privilege(pg_class.oid, attnum, 'select')), '{}') as columns
     from pg_class join pg_attribute on attrelid = pg_class.oid
     where relkind in ('r', 'p') and attnum > 0 and not attisdropped
       and relnamespace = (select relnamespace from pg_class where oid = to_regclass($1))
     group by relname`,
    [QUOTES],
  );
  return new Map(rows.map(({ table, columns }) => [table, columns]));
}

function refuseStrangeTables(columns: ReadonlyMap<string, readonly string[]>): void {
  const missing = Object.entries(REQUIRED).flatMap(([table, names]) => {
    const present = columns.get(table);
    return present === undefined || present.length === 0
      ? [table]
      : names.filter((name) => !present.includes(name)).map((name) => `${table}.${name}`);
  });
  if (missing.length > 0) {
    throw new OperatorError(
      'This is no database of npubcash, version 2 or 3, or its role may not read all that is needed: there is' +
        ` no ${missing.join(', ')}.`,
    );
  }
  const blocks = columns.get(BLOCKS);
  const isHidden = (name: string) => blocks !== undefined && !blocks.includes(name);
  if (BLOCK_COLUMNS.some(isHidden)) {
    throw new OperatorError(`The role may not read ${BLOCKS}, and who is blocked has to stay so.`);
  }
}
