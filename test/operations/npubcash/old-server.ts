import { randomBytes, randomUUID } from 'node:crypto';
import pg from 'pg';
import { encodeInvoice } from '../../../src/demo/test-mint/bolt11-encoder.ts';

/** A payment as npubcash lists it, in the words of the interface (spec.md section 2). */
export interface OldPayment {
  createdAt: number;
  paidAt: number;
  expiresAt: number;
  mintUrl: string;
  quoteId: string;
  request: string;
  amount: number;
  state: string;
  locked: boolean;
  zapRequest?: string;
}

/** A row of a quote, of which a test gives what matters to it. Times in milliseconds since 1970. */
export interface OldQuote {
  pubkey: string;
  createdAtMs: number;
  expiresAtMs: number | null;
  paidAtMs: number | null;
  mintUrl: string;
  quoteId: string;
  request: string | null;
  amount: number;
  unit: string;
  state: string;
  locked: boolean | null;
  zapRequest: string | null;
  misspeltZapRequest: string | null;
}

/** The database of an npubcash server of version 3, with what older versions left in it. */
export class OldServer {
  readonly url: string;
  readonly #client: pg.Client;
  readonly #drop: () => Promise<void>;
  #reader: string | null = null;

  /** @param server a PostgreSQL server, where it gets a database of its own */
  static async create(server: string): Promise<OldServer> {
    const { url, drop } = await createDatabaseAt(server);
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query(TABLES);
    return new OldServer(url, client, drop);
  }

  private constructor(url: string, client: pg.Client, drop: () => Promise<void>) {
    this.url = url;
    this.#client = client;
    this.#drop = drop;
  }

  async close(): Promise<void> {
    if (this.#reader !== null) {
      await this.#client.query(`drop owned by ${this.#reader}; drop role ${this.#reader}`);
    }
    await this.#client.end();
    await this.#drop();
  }

  /** @returns its `id` */
  async addUser(user: {
    pubkey: string;
    name?: string;
    mintUrl?: string;
    lockQuote?: boolean;
  }): Promise<number> {
    return this.#insert(
      'insert into l_users (pubkey, name, mint_url, lock_quote) values ($1, $2, $3, $4) returning id',
      [user.pubkey, user.name ?? null, user.mintUrl ?? null, user.lockQuote ?? false],
    );
  }

  async nameUser(id: number, name: string | null): Promise<void> {
    await this.#client.query('update l_users set name = $2 where id = $1', [id, name]);
  }

  async changeUser(id: number, mintUrl: string): Promise<void> {
    await this.#client.query('update l_users set mint_url = $2 where id = $1', [id, mintUrl]);
  }

  async block(pubkey: string, reason: string): Promise<void> {
    await this.#client.query('insert into recipient_blocks values ($1, now(), $2)', [
      pubkey,
      reason,
    ]);
  }

  async unblock(pubkey: string): Promise<void> {
    await this.#client.query('delete from recipient_blocks where pubkey = $1', [pubkey]);
  }

  /** @returns the url of a role that may read what is brought over, and no proofs */
  async urlOfReader(): Promise<string> {
    const url = new URL(this.url);
    this.#reader = `${url.pathname.slice(1)}_reader`;
    url.username = this.#reader;
    await this.#client.query(`
      create role ${this.#reader} login;
      grant select on l_users, mint_quotes, recipient_blocks to ${this.#reader}`);
    return url.href;
  }

  /** @returns its `id` */
  async addQuote(given: Partial<OldQuote> & { pubkey: string }): Promise<number> {
    const quote = oldQuote(given);
    return this.#insert(
      `insert into mint_quotes (created_at, unit, mint_url, payment_request, quote_id, expires_at,
         amount, pubkey, state, paid_at, locked, serialized_zap_request, serialzed_zap_request)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) returning id`,
      [
        new Date(quote.createdAtMs),
        quote.unit,
        quote.mintUrl,
        quote.request,
        quote.quoteId,
        toDate(quote.expiresAtMs),
        quote.amount,
        quote.pubkey,
        quote.state,
        toDate(quote.paidAtMs),
        quote.locked,
        quote.zapRequest,
        quote.misspeltZapRequest,
      ],
    );
  }

  /** As many payments of each recipient, some of them in one moment, whose invoices nobody can read. */
  async addManyPayments(
    pubkeys: readonly string[],
    howMany: number,
    firstAtMs: number,
  ): Promise<void> {
    await this.#client.query(
      `insert into mint_quotes (created_at, unit, mint_url, payment_request, quote_id, expires_at,
         amount, pubkey, state, paid_at)
       select paid_at - interval '1 min', 'sat', 'https://mint.example', 'lnbc' || quote_id, quote_id,
         paid_at + interval '1 h', number, pubkey, 'ISSUED', paid_at
       from unnest($1::text[]) as pubkey, generate_series(1, $2::int) as number,
         lateral (select md5(pubkey || number) as quote_id,
           $3::timestamptz + number / 3 * interval '1 s' as paid_at) as made`,
      [pubkeys, howMany, new Date(firstAtMs)],
    );
  }

  async payQuote(id: number, paidAtMs: number): Promise<void> {
    await this.#client.query(`update mint_quotes set state = 'PAID', paid_at = $2 where id = $1`, [
      id,
      new Date(paidAtMs),
    ]);
  }

  /** Rows of the operator's income, and of tables that version 1 left. */
  async addWhatStays(): Promise<void> {
    await this.#client.query(`
      insert into proofs (amount, keyset_id, secret, "C", state)
      values (8, '00aa', 'a-secret-of-a-proof', '02', 'UNSPENT'), (2, '00aa', 'another-secret', '02', 'UNSPENT');
      insert into mints values ('https://mint.example', now(), '{}');
      create table l_payments (id serial);
      insert into l_payments default values;
      create table verification_tokens (token text);
      insert into verification_tokens values ('a-secret-token');`);
  }

  /**
   * A recipient's list as npubcash answers it, the newest payment first.
   *
   * @param without the `id` of rows that are not expected elsewhere
   * @param canonical what each spelling of a mint is called elsewhere
   */
  async list(
    pubkey: string,
    without: ReadonlySet<number>,
    canonical: ReadonlyMap<string, string>,
  ): Promise<OldPayment[]> {
    const { rows } = await this.#client.query<OldPayment & { id: number; zap: string | null }>(
      `select id,
         floor(extract(epoch from created_at))::int as "createdAt",
         floor(extract(epoch from paid_at))::int as "paidAt",
         floor(extract(epoch from expires_at))::int as "expiresAt",
         mint_url as "mintUrl", quote_id as "quoteId", payment_request as request, amount, state, locked,
         coalesce(serialized_zap_request, serialzed_zap_request) as zap
       from mint_quotes
       where lower(pubkey) = $1 and state in ('PAID', 'ISSUED', 'INFLIGHT')
       order by paid_at desc, id desc`,
      [pubkey],
    );
    return rows
      .filter(({ id }) => !without.has(id))
      .map(({ id: _, zap, ...payment }) => ({
        ...payment,
        mintUrl: canonical.get(payment.mintUrl) ?? payment.mintUrl,
        ...(zap === null ? {} : { zapRequest: zap }),
      }));
  }

  async #insert(statement: string, values: unknown[]): Promise<number> {
    const { rows } = await this.#client.query<{ id: number }>(statement, values);
    return rows[0]?.id ?? 0;
  }
}

/** Makes a database with nothing in it. */
export async function createDatabaseAt(
  server: string,
): Promise<{ url: string; drop: () => Promise<void> }> {
  const name = `npubcash_test_${randomBytes(6).toString('hex')}`;
  const url = new URL(server);
  url.pathname = `/${name}`;
  await runAt(server, `create database ${name} template template0`);
  return { url: url.href, drop: () => runAt(server, `drop database ${name} with (force)`) };
}

async function runAt(server: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: server });
  await client.connect();
  await client.query(statement);
  await client.end();
}

const NODE_KEY = Buffer.alloc(32, 7);

const HOUR_MS = 3_600_000;

function oldQuote(given: Partial<OldQuote> & { pubkey: string }): OldQuote {
  const createdAtMs = given.createdAtMs ?? (given.paidAtMs ?? Date.now()) - 60_000;
  const amount = given.amount ?? 21;
  return {
    createdAtMs,
    expiresAtMs: createdAtMs + HOUR_MS,
    paidAtMs: null,
    mintUrl: 'https://mint.example',
    quoteId: randomUUID(),
    request: invoice(amount, createdAtMs),
    amount,
    unit: 'sat',
    state: 'PAID',
    locked: false,
    zapRequest: null,
    misspeltZapRequest: null,
    ...given,
  };
}

function invoice(amountSat: number, createdAtMs: number): string {
  return encodeInvoice(
    {
      amountMsat: amountSat * 1000,
      createdAt: Math.floor(createdAtMs / 1000),
      expirySeconds: HOUR_MS / 1000,
      paymentHash: randomBytes(32),
      paymentSecret: randomBytes(32),
      description: 'a payment to npubcash',
    },
    NODE_KEY,
  );
}

function toDate(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms);
}

const TABLES = `
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
