import { randomBytes, randomUUID } from 'node:crypto';
import pg from 'pg';
import { encodeInvoice } from '../../../demo/test-mint/bolt11-encoder.ts';
import { createOperationsDatabase } from '../../helpers/database/temporary-postgres-database.ts';

export interface NpubcashQuote {
  pubkey: string;
  createdAtMs: number;
  paidAtMs: number | null;
  mintUrl: string;
  quoteId: string;
  request: string | null;
  amount: number;
  unit: string;
  state: string;
  locked: boolean;
  zapRequest: string | null;
  /** Value of `serialzed_zap_request`, the misspelt column of older versions. */
  misspeltZapRequest: string | null;
}

/** A database like that of an npubcash server, version 3. It also has the columns of older versions. */
export class NpubcashDatabase {
  readonly url: string;
  readonly #client: pg.Client;
  readonly #drop: () => Promise<void>;

  static async create(): Promise<NpubcashDatabase> {
    const { url, drop } = await createOperationsDatabase();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query(CREATE_TABLES);
    return new NpubcashDatabase(url, client, drop);
  }

  private constructor(url: string, client: pg.Client, drop: () => Promise<void>) {
    this.url = url;
    this.#client = client;
    this.#drop = drop;
  }

  async close(): Promise<void> {
    await this.#client.end();
    await this.#drop();
  }

  async addUser(
    user: { pubkey: string } & Partial<{ name: string; mint_url: string; lock_quote: boolean }>,
  ): Promise<number> {
    return this.#insert('l_users', user);
  }

  async blockRecipient(pubkey: string): Promise<void> {
    await this.#client.query(`insert into recipient_blocks values ($1, now(), 'spam')`, [pubkey]);
  }

  async addQuote(quote: Partial<NpubcashQuote> & { pubkey: string }): Promise<number> {
    const { paidAtMs = null, amount = 21 } = quote;
    const createdAtMs = quote.createdAtMs ?? (paidAtMs ?? Date.now()) - MINUTE_MS;
    const { request = createInvoice(amount, createdAtMs) } = quote;
    return this.#insert('mint_quotes', {
      created_at: new Date(createdAtMs),
      unit: quote.unit ?? 'sat',
      mint_url: quote.mintUrl ?? 'https://mint.example',
      payment_request: request,
      quote_id: quote.quoteId ?? randomUUID(),
      expires_at: new Date(createdAtMs + HOUR_MS),
      amount,
      pubkey: quote.pubkey,
      state: quote.state ?? 'PAID',
      paid_at: paidAtMs === null ? null : new Date(paidAtMs),
      locked: quote.locked ?? false,
      serialized_zap_request: quote.zapRequest,
      serialzed_zap_request: quote.misspeltZapRequest,
    });
  }

  async addManyPayments(pubkeys: readonly string[], perRecipient: number, firstPaidAtMs: number) {
    await this.#client.query(
      `insert into mint_quotes (created_at, unit, mint_url, payment_request, quote_id, expires_at,
         amount, pubkey, state, paid_at)
       select paid_at - interval '1 min', 'sat', 'https://mint.example', 'lnbc' || quote_id, quote_id,
         paid_at + interval '1 h', number, pubkey, 'ISSUED', paid_at
       from unnest($1::text[]) as pubkey, generate_series(1, $2::int) as number,
         lateral (select md5(pubkey || number) as quote_id,
           $3::timestamptz + number / 3 * interval '1 s' as paid_at) as made`,
      [pubkeys, perRecipient, new Date(firstPaidAtMs)],
    );
  }

  async addProofs(): Promise<void> {
    await this.#client.query(`
      insert into proofs (amount, keyset_id, secret, "C", state)
      values (8, '00aa', 'a-secret-of-a-proof', '02', 'UNSPENT'), (2, '00aa', 'another-secret', '02', 'UNSPENT');`);
  }

  async listPayments(
    pubkey: string,
    excludedIds: ReadonlySet<number>,
    normalisedMintUrls: ReadonlyMap<string, string>,
  ): Promise<object[]> {
    const { rows } = await this.#client.query(
      `select id,
         floor(extract(epoch from created_at))::int as "createdAt",
         floor(extract(epoch from paid_at))::int as "paidAt",
         floor(extract(epoch from expires_at))::int as "expiresAt",
         mint_url as "mintUrl", quote_id as "quoteId", payment_request as request, amount, state, locked,
         coalesce(serialized_zap_request, serialzed_zap_request) as "zapRequest"
       from mint_quotes
       where lower(pubkey) = $1 and state in ('PAID', 'ISSUED', 'INFLIGHT')
       order by paid_at desc, id desc`,
      [pubkey],
    );
    return rows
      .filter(({ id }) => !excludedIds.has(id))
      .map(({ id: _, zapRequest, ...payment }) => ({
        ...payment,
        mintUrl: normalisedMintUrls.get(payment.mintUrl),
        // Nobody knows yet what these mints do after the expiry.
        ...(payment.state === 'ISSUED' ? {} : { collectBy: payment.expiresAt }),
        ...(zapRequest === null ? {} : { zapRequest }),
      }));
  }

  async #insert(table: string, row: object): Promise<number> {
    const columns = Object.keys(row);
    const parameters = columns.map((_, index) => `$${index + 1}`);
    const { rows } = await this.#client.query<{ id: number }>(
      `insert into ${table} (${columns}) values (${parameters}) returning id`,
      Object.values(row),
    );
    return rows[0]?.id ?? 0;
  }
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

export function createInvoice(amountSat: number, createdAtMs: number, expirySeconds = 3_600) {
  return encodeInvoice({
    amountMsat: amountSat * 1000,
    createdAt: Math.floor(createdAtMs / 1000),
    expirySeconds,
    paymentHash: randomBytes(32),
    description: 'a payment to npubcash',
  });
}

const CREATE_TABLES = `
  create table l_users (
    id serial primary key, created_at timestamptz default now(), pubkey text, name text,
    mint_url text, lock_quote bool default false
  );
  create table mint_quotes (
    id serial primary key, created_at timestamptz default now(), unit text, mint_url text,
    payment_request text, quote_id text, expires_at timestamptz, amount integer, pubkey text,
    state text, paid_at timestamptz, locked boolean default false, serialized_zap_request text,
    serialzed_zap_request text, last_polled_at timestamptz
  );
  create index on mint_quotes (quote_id);
  create table mints (mint_url text primary key, last_checked timestamptz, mint_info jsonb);
  create table proofs (
    id serial, amount integer, keyset_id text, secret text, "C" text, state text
  );
  create table recipient_blocks (pubkey text, created_at timestamptz, reason text);
  create table pgmigrations (id serial, name text, run_on timestamp);`;
