import pg from 'pg';
import { createClientConfig } from '../../database/postgres.ts';
import { OperatorError, rootCauseMessage } from '../../errors.ts';

/** A row of `l_users`, not validated. `pubkey` is in lower case. */
export type NpubcashUser = Record<'pubkey' | 'name' | 'mintUrl', string | null> & {
  id: number;
  lockQuotes: boolean;
};

/** A row of `mint_quotes`, not validated. `pubkey` is in lower case. Times before 1970 or after 9999 are null. */
export type NpubcashQuote = { id: number; locked: boolean | null } & Record<
  'unit' | 'mintUrl' | 'request' | 'quoteId' | 'pubkey' | 'state' | 'zapRequest',
  string | null
> &
  Record<'createdAtMs' | 'expiresAtMs' | 'amountSat' | 'paidAtMs', number | null>;

export class NpubcashSource implements AsyncDisposable {
  readonly #client: pg.Client;
  #hasBlocks = false;

  private constructor(client: pg.Client) {
    this.#client = client;
  }

  static async connect(url: string): Promise<NpubcashSource> {
    try {
      const client = new pg.Client(createClientConfig(url));
      // An unhandled 'error' event ends the process.
      client.on('error', () => undefined);
      await client.connect();
      return new NpubcashSource(client);
    } catch (error) {
      throw new OperatorError(
        `Cannot connect to the npubcash database (${rootCauseMessage(error)}). Give its URL, such as` +
          ' postgres://user@host:5432/npubcash.',
      );
    }
  }

  /** Begins the transaction that the cursors need. @throws OperatorError if tables are missing */
  async beginAndCheckTables(): Promise<void> {
    await this.#query(`
      begin read only;
      set local statement_timeout = 0;
      set local idle_in_transaction_session_timeout = 0`);
    const rows = await this.#query<{ name: string }>(
      'select tablename as name from pg_tables where schemaname = current_schema()',
    );
    const tables = rows.map(({ name }) => name);
    this.#hasBlocks = tables.includes('recipient_blocks');
    const missingTables = ['l_users', 'mint_quotes', 'proofs'].filter(
      (table) => !tables.includes(table),
    );
    if (missingTables.length > 0) {
      throw new OperatorError(
        `This is not the database of an npubcash server, version 2 or 3. Missing tables: ${missingTables.join(', ')}.`,
      );
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.end();
  }

  readProofTotals() {
    return this.#query<{ state: string | null; proofCount: number; amountSat: number }>(`
      select state, count(*) as "proofCount", coalesce(sum(amount), 0) as "amountSat"
      from proofs group by state order by state`);
  }

  /** Reads rows in lower case before rows that differ from them only in case, because npubcash uses the former. */
  readUsers() {
    return this.#fetchPages<NpubcashUser>(`
      select id, lower(pubkey) as pubkey, nullif(name, '') as name, nullif(mint_url, '') as "mintUrl",
        coalesce(lock_quote, false) as "lockQuotes"
      from l_users
      order by name = lower(name) desc nulls last, pubkey = lower(pubkey) desc, id`);
  }

  async *readBlocks() {
    if (this.#hasBlocks) {
      yield* this.#fetchPages<
        Pick<NpubcashQuote, 'pubkey' | 'createdAtMs'> & { reason: string | null }
      >(`
        select lower(pubkey) as pubkey, reason, ${toMillisecondsSql('created_at')} as "createdAtMs"
        from recipient_blocks order by pubkey`);
    }
  }

  /** Reads the paid quotes, by recipient and time of payment (unknown times last), then the other quotes by age. */
  async *readQuotes(): AsyncGenerator<NpubcashQuote[]> {
    const isPaid = `state in ('PAID', 'ISSUED', 'INFLIGHT')`;
    for (const conditionAndOrder of [
      `${isPaid} order by lower(pubkey) collate "C", paid_at, created_at, id`,
      `${isPaid} is not true order by created_at, id`,
    ]) {
      yield* this.#fetchPages<NpubcashQuote>(`
        select id, unit, mint_url as "mintUrl", payment_request as request, quote_id as "quoteId",
          amount as "amountSat", lower(pubkey) as pubkey, state, locked,
          ${toMillisecondsSql('created_at')} as "createdAtMs",
          ${toMillisecondsSql('expires_at')} as "expiresAtMs",
          ${toMillisecondsSql('paid_at')} as "paidAtMs",
          ${ZAP_REQUEST_SQL} as "zapRequest"
        from mint_quotes where ${conditionAndOrder}`);
    }
  }

  async *#fetchPages<Row>(query: string): AsyncGenerator<Row[]> {
    await this.#query(`declare page no scroll cursor for ${query}`);
    for (;;) {
      const rows = await this.#query<Row>('fetch 200 from page');
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
      throw new OperatorError(`Cannot read the npubcash database: ${rootCauseMessage(error)}.`);
    }
  }
}

/** Older databases have a misspelt column, and some have both. Reads them as JSON, in which either may be missing. */
const ZAP_REQUEST_SQL = `coalesce(
  nullif(to_jsonb(mint_quotes) ->> 'serialized_zap_request', ''),
  nullif(to_jsonb(mint_quotes) ->> 'serialzed_zap_request', ''))`;

function toMillisecondsSql(column: string): string {
  return `case when ${column} between '1970-01-01 00:00Z' and '9999-12-31 00:00Z'
    then floor(extract(epoch from ${column}) * 1000)::bigint end`;
}
