import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { sql } from 'kysely';
import { DatabaseStore, jsonRows, toFlag } from '../database/sql.ts';
import type { Store } from '../store.ts';
import type { PaidState } from './quote.ts';
import type { QuoteState } from '../database/schema.ts';

/** A quote that a mint has just created, before anybody paid it. Times in milliseconds since 1970. */
export interface NewQuote {
  mintUrl: string;
  quoteId: string;
  pubkey: string;
  request: string;
  amountSat: number;
  locked: boolean;
  createdAtMs: number;
  expiresAtMs: number;
  verifyToken: string;
  paymentHash: string;
  watchUntilMs: number;
  /** Keyed hash of the payer's address group; null if it is not counted. */
  addressGroup: string | null;
  /** What the payer wrote (LUD-12). */
  comment: string | null;
  /** The payer's event, byte for byte as it was signed (NIP-57). */
  zapRequest: string | null;
}

/** A row of a recipient's list. Times in milliseconds since 1970. */
export interface ListedQuote {
  mintUrl: string;
  quoteId: string;
  request: string;
  amountSat: number;
  state: PaidState;
  locked: 0 | 1;
  createdAtMs: number;
  expiresAtMs: number;
  paidAtMs: number;
  comment: string | null;
  zapRequest: string | null;
}

/** Open invoices of a recipient, of an address group, and of both together. */
export interface OpenInvoices {
  ofRecipient: number;
  ofAddressGroup: number;
  ofPair: number;
}

/** Selects a part of a recipient's list. */
export interface PageRequest {
  /** Only payments later than this Unix time, in seconds; null for all. */
  sinceSeconds: number | null;
  limit: number;
  offset: number;
}

/** The last second of JavaScript's dates. */
const LAST_SECOND = 8_640_000_000_000;

const NEW_QUOTE_COLUMNS = {
  mint_url: 'text',
  quote_id: 'text',
  pubkey: 'text',
  request: 'text',
  amount_sat: 'bigint',
  locked: 'bigint',
  created_at: 'bigint',
  expires_at: 'bigint',
  verify_hash: 'text',
  payment_hash: 'text',
  watch_until: 'bigint',
  address_group: 'text',
  comment: 'text',
  zap_request: 'text',
} as const;

export class QuoteStore extends DatabaseStore {
  /**
   * Inserts new quotes with one statement. Their values have been checked, so it fails only if the database does.
   *
   * @returns their row ids, in the order of the quotes; null if a quote of that mint and id exists already
   */
  async insert(quotes: readonly NewQuote[]): Promise<(number | null)[]> {
    // In a fixed order: two processes that insert the same ids in different orders would deadlock.
    const rows = quotes.toSorted(byMintAndId).map((quote) => ({
      mint_url: quote.mintUrl,
      quote_id: quote.quoteId,
      pubkey: quote.pubkey,
      request: quote.request,
      amount_sat: quote.amountSat,
      locked: toFlag(quote.locked),
      created_at: quote.createdAtMs,
      expires_at: quote.expiresAtMs,
      verify_hash: verifyHash(quote.verifyToken),
      payment_hash: quote.paymentHash,
      watch_until: quote.watchUntilMs,
      address_group: quote.addressGroup,
      comment: quote.comment,
      zap_request: quote.zapRequest,
    }));
    const inserted = await sql<{ id: number; mintUrl: string; quoteId: string }>`
      insert into quotes (
        mint_url, quote_id, pubkey, request, amount_sat, state, locked, created_at, expires_at,
        verify_hash, payment_hash, watch_until, address_group, comment, zap_request
      )
      select mint_url, quote_id, pubkey, request, amount_sat, 'UNPAID', locked, created_at, expires_at,
             verify_hash, payment_hash, watch_until, address_group, comment, zap_request
      from ${jsonRows(this.db, NEW_QUOTE_COLUMNS, rows)} as added
      where true
      on conflict (mint_url, quote_id) do nothing
      returning id, mint_url as "mintUrl", quote_id as "quoteId"
    `.execute(this.db);
    const ids = new Map(
      inserted.rows.map(({ id, mintUrl, quoteId }) => [`${mintUrl} ${quoteId}`, id]),
    );
    return quotes.map(({ mintUrl, quoteId }) => {
      const key = `${mintUrl} ${quoteId}`;
      const id = ids.get(key) ?? null;
      // If two of the quotes have the same id, the first one was stored.
      ids.delete(key);
      return id;
    });
  }

  /**
   * Returns one page of a recipient's paid quotes, newest payment first, and the total.
   *
   * A page is a range of the recipient's payment counter, so every page costs the same. The counter is
   * dense, so both ends of the range are known. Without the older end, PostgreSQL underestimates the rows of
   * the range, and reads and sorts all older payments.
   */
  async listPaid(
    pubkey: string,
    page: PageRequest,
  ): Promise<{ quotes: ListedQuote[]; total: number }> {
    const sinceMs =
      page.sinceSeconds === null ? -1 : Math.min(page.sinceSeconds, LAST_SECOND) * 1000;
    const end = page.offset + page.limit;
    const { rows } = await sql<PageRow>`
      with bounds as materialized (
        select
          coalesce((select paid_count from users where pubkey = ${pubkey}), 0) as newest,
          coalesce((
            select paid_seq from quotes
            where pubkey = ${pubkey} and paid_seq is not null and paid_at <= ${sinceMs}
            order by paid_at desc, paid_seq desc limit 1
          ), 0) as seen
      )
      select newest - seen as total, mint_url as "mintUrl", quote_id as "quoteId", request,
             amount_sat as "amountSat", state, locked, created_at as "createdAtMs",
             expires_at as "expiresAtMs", paid_at as "paidAtMs", comment, zap_request as "zapRequest"
      from bounds left join quotes on pubkey = ${pubkey} and paid_seq is not null
        and paid_seq <= newest - ${page.offset}
        and paid_seq > case when seen > newest - ${end} then seen else newest - ${end} end
      order by paid_seq desc
    `.execute(this.db);
    return { total: rows[0]?.total ?? 0, quotes: rows.filter(hasQuote) };
  }

  /**
   * Counts the open invoices of a recipient, of an address group, and of the pair of both. Counting stops at the given
   * limits. An invoice is open while it is unpaid and its expiry has not passed, within the bounds of `countedMs`.
   *
   * @param countedMs.least an expiry that is sooner after the creation does not matter: short expiries evade no limit,
   *   and expired invoices do not pile up in front of the open ones
   */
  async countOpen(
    { pubkey, addressGroup }: { pubkey: string; addressGroup: string },
    limits: OpenInvoices,
    countedMs: { least: number; most: number },
    nowMs: number,
  ): Promise<OpenInvoices> {
    // An invoice far in the future is from a clock that was wrong.
    const isOpen = sql`
      created_at > ${nowMs - countedMs.most}
      and created_at <= ${nowMs + countedMs.most}
      and (expires_at > ${nowMs} or created_at > ${nowMs - countedMs.least})`;
    // The order is that of an index each time, so that PostgreSQL reads no more rows than it counts.
    const { rows } = await sql<OpenInvoices>`
      select
        (select count(*) from (
          select 1 from quotes where pubkey = ${pubkey} and paid_at is null and ${isOpen}
          order by paid_at desc, created_at desc limit ${limits.ofRecipient}
        ) as open) as "ofRecipient",
        (select count(*) from (
          select 1 from quotes where address_group = ${addressGroup} and ${isOpen}
          order by created_at desc limit ${limits.ofAddressGroup}
        ) as open) as "ofAddressGroup",
        (select count(*) from (
          select 1 from quotes
          where address_group = ${addressGroup} and pubkey = ${pubkey} and paid_at is null and ${isOpen}
          order by created_at desc limit ${limits.ofPair}
        ) as open) as "ofPair"
    `.execute(this.db);
    return rows[0] ?? { ofRecipient: 0, ofAddressGroup: 0, ofPair: 0 };
  }

  /** Returns the payment request and state for the token of a verify URL (LUD-21). Only its hash is stored. */
  async findByVerifyToken(token: string): Promise<{ request: string; state: QuoteState } | null> {
    const row = await this.db
      .selectFrom('quotes')
      .select(['request', 'state'])
      .where('verify_hash', '=', verifyHash(token))
      .executeTakeFirst();
    return row ?? null;
  }
}

function byMintAndId(a: NewQuote, b: NewQuote): number {
  return compare(a.mintUrl, b.mintUrl) || compare(a.quoteId, b.quoteId);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

function verifyHash(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/** A row of a page. An empty page is one row that has only the total. */
type PageRow = ListedQuote & { total: number };

function hasQuote({ quoteId }: { quoteId: string | null }): boolean {
  return quoteId !== null;
}

/** Quotes of one statement; more wait for the next one. */
const MAX_BATCH = 100;

interface Waiting {
  quote: NewQuote;
  resolve: (id: number | null) => void;
  reject: (error: unknown) => void;
}

/**
 * Stores new quotes. Quotes that arrive during a commit share the next one, because a synced commit takes far longer than
 * an insert, and on SQLite it blocks the process.
 */
export class QuoteWriter {
  readonly #quotes: Pick<Store['quotes'], 'insert'>;
  #waiting: Waiting[] = [];
  #isWriting = false;

  constructor(quotes: Pick<Store['quotes'], 'insert'>) {
    this.#quotes = quotes;
  }

  /** Resolves after the commit. @returns the row id, or null if a quote of that mint and id exists already */
  insert(quote: NewQuote): Promise<number | null> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ quote, resolve, reject });
      if (!this.#isWriting) {
        void this.#writeAll();
      }
    });
  }

  async #writeAll(): Promise<void> {
    this.#isWriting = true;
    while (this.#waiting.length > 0) {
      // Quotes whose mints have already answered join the batch.
      await nextTurn();
      const batch = this.#waiting.splice(0, MAX_BATCH);
      try {
        const ids = await this.#quotes.insert(batch.map(({ quote }) => quote));
        for (const [i, { resolve }] of batch.entries()) {
          resolve(ids[i] ?? null);
        }
      } catch (error) {
        for (const { reject } of batch) {
          reject(error);
        }
      }
    }
    this.#isWriting = false;
  }
}
