import { hash } from 'node:crypto';
import { type RawBuilder, sql } from 'kysely';
import type { QuoteState } from '../database/schema.ts';
import { BaseStore, columnInValues, jsonRows, toFlag } from '../database/sql.ts';
import { DatabaseUnavailableError } from '../errors.ts';
import { BatchWriter } from './batch-writer.ts';
import { CLOCK_TOLERANCE_MS, MAX_AHEAD_MS, type PaidQuoteState } from './quote-state.ts';

/** A quote that a mint has just created. Times in milliseconds since 1970. */
export interface NewQuote {
  mintUrl: string;
  quoteId: string;
  pubkey: string;
  request: string;
  amountSat: number;
  isLocked: boolean;
  createdAtMs: number;
  expiresAtMs: number;
  verifyToken: string;
  paymentHash: string;
  watchUntilMs: number;
  /** Keyed hashes of the prefixes of the payer's address, hex, the shortest prefix first. */
  addressHashes: string | null;
  /** The tag of the address (LUD-16). */
  tag: string | null;
  /** The payer's comment (LUD-12). */
  comment: string | null;
  /** The payer's signed event, byte for byte (NIP-57). */
  zapRequest: string | null;
}

/** A quote in the list of its recipient. Times in milliseconds since 1970. */
export interface ListedQuote
  extends Pick<NewQuote, 'mintUrl' | 'quoteId' | 'request' | 'amountSat' | 'createdAtMs'>,
    Pick<NewQuote, 'expiresAtMs' | 'tag' | 'comment' | 'zapRequest'> {
  state: PaidQuoteState;
  locked: 0 | 1;
  paidAtMs: number;
}

/** What a payer may know about a quote. */
export interface VerifiableQuote
  extends Pick<NewQuote, 'pubkey' | 'request' | 'amountSat' | 'expiresAtMs'> {
  state: QuoteState;
}

interface PaidPage {
  sinceSeconds: number | null;
  limit: number;
  offset: number;
}

interface PaymentSum {
  payments: number;
  amountSat: number;
}

/** Those of the prefixes of an address have the longest prefix first. */
export interface OpenInvoiceCounts {
  perRecipient: number;
  perPair: readonly number[];
  perAddress: readonly number[];
}

const HOUR_MS = 60 * 60_000;

/**
 * The hour of an invoice, as in the index `quotes_open_by_address`. The invoices of a prefix and an hour are a range of
 * the index, so a count reads no older ones.
 */
const CREATED_HOUR = sql.raw(`created_at / ${HOUR_MS}`);

/** The largest JavaScript date. */
const MAX_DATE_SECONDS = 8_640_000_000_000;

const NEW_QUOTE_COLUMNS = {
  mint_url: 'text',
  quote_id: 'text',
  pubkey: 'text',
  request: 'text',
  amount_sat: 'bigint',
  locked: 'bigint',
  created_at: 'bigint',
  expires_at: 'bigint',
  verify_token_hash: 'text',
  payment_hash: 'text',
  watch_until: 'bigint',
  address_hashes: 'text',
  tag: 'text',
  comment: 'text',
  zap_request: 'text',
} as const;

const LISTED_QUOTE_COLUMNS = sql`
  mint_url as "mintUrl", quote_id as "quoteId", request, amount_sat as "amountSat", state, locked,
  created_at as "createdAtMs", expires_at as "expiresAtMs", paid_at as "paidAtMs", tag, comment,
  zap_request as "zapRequest"`;

export class QuoteStore extends BaseStore {
  /** Stores quotes. Returns their row ids in order; null for a quote whose id is already stored for its mint. */
  async insert(quotes: readonly NewQuote[]): Promise<(number | null)[]> {
    // Sorted, because two processes that insert the same ids in different orders would deadlock.
    const sorted = quotes.toSorted((one, other) =>
      compareStrings(toQuoteKey(one), toQuoteKey(other)),
    );
    const rows = sorted.map((quote) => ({
      mint_url: quote.mintUrl,
      quote_id: quote.quoteId,
      pubkey: quote.pubkey,
      request: quote.request,
      amount_sat: quote.amountSat,
      locked: toFlag(quote.isLocked),
      created_at: quote.createdAtMs,
      expires_at: quote.expiresAtMs,
      verify_token_hash: hash('sha256', quote.verifyToken),
      payment_hash: quote.paymentHash,
      watch_until: quote.watchUntilMs,
      address_hashes: quote.addressHashes,
      tag: quote.tag,
      comment: quote.comment,
      zap_request: quote.zapRequest,
    }));
    const columns = sql.join(Object.keys(NEW_QUOTE_COLUMNS).map((column) => sql.ref(column)));
    const inserted = await sql<{ id: number; mintUrl: string; quoteId: string }>`
      insert into quotes (${columns}, state)
      select ${columns}, 'UNPAID' from ${jsonRows(this.db, NEW_QUOTE_COLUMNS, rows)} as added
      where true
      on conflict (mint_url, quote_id) do nothing
      returning id, mint_url as "mintUrl", quote_id as "quoteId"
    `.execute(this.db);
    const ids = new Map(inserted.rows.map((row) => [toQuoteKey(row), row.id]));
    return quotes.map((quote) => {
      const id = ids.get(toQuoteKey(quote)) ?? null;
      // If two of these quotes have the same id, only the first one was stored.
      ids.delete(toQuoteKey(quote));
      return id;
    });
  }

  /**
   * Returns one page of a recipient's paid quotes, the newest payment first, and the total. The first page lists new
   * payments. Other pages do not: a wallet that continues to read could get some payments of a second, and would
   * ignore the others later.
   *
   * @param page.sinceSeconds only payments later than this Unix time
   */
  async listPaid(
    pubkey: string,
    page: PaidPage,
    nowMs: number,
  ): Promise<{ quotes: ListedQuote[]; total: number }> {
    const firstRead = await this.#readPaidPage(pubkey, page, nowMs);
    if (!firstRead.hasNewPayments || page.offset > 0) {
      return firstRead;
    }
    await this.#listNewPayments(pubkey, nowMs);
    return await this.#readPaidPage(pubkey, page, nowMs);
  }

  /**
   * Lists the payments that were recorded since the last call, unless the newest one is dated in the next second. Waits
   * for a transaction that is recording a payment. Later payments get a later second (ADR 40). Does nothing if the
   * database cannot write.
   */
  async #listNewPayments(pubkey: string, nowMs: number): Promise<void> {
    try {
      await sql`
        update users set listed_until = (last_paid_at / 1000 + 1) * 1000
        where pubkey = ${pubkey} and ${hasNewPayments(nowMs)}
      `.execute(this.db);
    } catch (error) {
      if (!(error instanceof DatabaseUnavailableError)) {
        throw error;
      }
    }
  }

  /**
   * A page is a range of `paid_seq`, which has no gaps, so every page costs the same. The range needs a lower bound,
   * too: without it, PostgreSQL reads and sorts all older payments.
   */
  async #readPaidPage(pubkey: string, page: PaidPage, nowMs: number) {
    const sinceMs =
      page.sinceSeconds === null ? -1 : Math.min(page.sinceSeconds, MAX_DATE_SECONDS) * 1000;
    const end = page.offset + page.limit;
    const { rows } = await sql<ListedQuote & { total: number; hasNew: 0 | 1 }>`
      with bounds as materialized (
        select ${countListed(pubkey)} as newest, ${countPaidBefore(pubkey, sql`${sinceMs + 1}`)} as seen,
          (select count(*) from users where pubkey = ${pubkey} and ${hasNewPayments(nowMs)}) as has_new
      )
      select newest - seen as total, has_new as "hasNew", ${LISTED_QUOTE_COLUMNS}
      from bounds left join quotes on pubkey = ${pubkey} and paid_seq is not null
        and paid_seq <= newest - ${page.offset}
        and paid_seq > case when seen > newest - ${end} then seen else newest - ${end} end
      order by paid_seq desc
    `.execute(this.db);
    // If the page is empty, the only row contains the total, and null in all columns of `quotes`.
    const isQuote = ({ quoteId }: { quoteId: string | null }) => quoteId !== null;
    // Negative if `since` is later than payments that are not listed yet.
    return {
      total: Math.max(0, rows[0]?.total ?? 0),
      quotes: rows.filter(isQuote),
      hasNewPayments: rows[0]?.hasNew === 1,
    };
  }

  /** Returns those of a recipient's listed quotes that have one of these ids. Several mints may use the same id. */
  async findListed(
    pubkey: string,
    quoteIds: readonly string[],
    nowMs: number,
  ): Promise<ListedQuote[]> {
    await this.#listNewPayments(pubkey, nowMs);
    const { rows } = await sql<ListedQuote>`
      with bounds as materialized (select ${countListed(pubkey)} as newest),
      -- Otherwise SQLite may read all payments of the recipient.
      found as materialized (
        select * from quotes where ${columnInValues(this.db, 'quote_id', 'text', quoteIds)}
      )
      select ${LISTED_QUOTE_COLUMNS} from bounds cross join found
      where pubkey = ${pubkey} and paid_seq <= newest
    `.execute(this.db);
    return rows;
  }

  /**
   * Adds up a recipient's newest payments, and those of them that are not ISSUED. `total` is the number of all
   * payments.
   */
  async summarisePaid(
    pubkey: string,
    maxPayments: number,
  ): Promise<{ total: number; all: PaymentSum; waiting: PaymentSum }> {
    const { rows } = await sql<{
      total: number;
      payments: number;
      amountSat: number;
      waitingPayments: number;
      waitingAmountSat: number;
    }>`
      with bounds as materialized (
        select coalesce((select paid_count from users where pubkey = ${pubkey}), 0) as newest
      )
      select newest as total,
             count(paid_seq) as payments,
             cast(coalesce(sum(amount_sat), 0) as bigint) as "amountSat",
             count(paid_seq) filter (where state <> 'ISSUED') as "waitingPayments",
             cast(coalesce(sum(amount_sat) filter (where state <> 'ISSUED'), 0) as bigint) as "waitingAmountSat"
      from bounds left join quotes on pubkey = ${pubkey} and paid_seq is not null
        and paid_seq <= newest and paid_seq > newest - ${maxPayments}
      group by newest
    `.execute(this.db);
    const [row] = rows;
    return {
      total: row?.total ?? 0,
      all: { payments: row?.payments ?? 0, amountSat: row?.amountSat ?? 0 },
      waiting: { payments: row?.waitingPayments ?? 0, amountSat: row?.waitingAmountSat ?? 0 },
    };
  }

  /**
   * Counts the open invoices of a recipient, of the prefixes of an address, and of both together. Stops counting at the
   * limits; a limit of 0 counts nothing. An invoice is open while its quote is UNPAID or INFLIGHT and has not expired.
   * These quotes have the hashes of an address.
   *
   * @param payer.addressHashes the hashes of each prefix and of all shorter ones, the longest prefix first
   * @param limits.perPair the limit of the shortest prefix
   * @param ageLimitsMs an invoice is open for at least `min` and at most `max`, whenever it expires; `max` is an hour
   */
  async countOpenInvoices(
    { pubkey, addressHashes }: { pubkey: string; addressHashes: readonly string[] },
    limits: { perRecipient: number; perPair: number; perAddress: readonly number[] },
    ageLimitsMs: { min: number; max: number },
    nowMs: number,
  ): Promise<OpenInvoiceCounts> {
    const hasPrefix = (hashes: string) =>
      // All hashes are hex, so `g` comes after each hash with these first digits.
      sql`address_hashes >= ${hashes} and address_hashes < ${`${hashes}g`}`;
    const isOpen = (createdAt: RawBuilder<unknown>) => sql`
      ${createdAt} > ${nowMs - ageLimitsMs.max}
      and (expires_at > ${nowMs} or ${createdAt} > ${nowMs - ageLimitsMs.min})`;
    const hour = Math.floor(nowMs / HOUR_MS);
    // `+ 0`, because PostgreSQL would otherwise read the whole index by recipient while the table is almost empty, and
    // keep this plan when the table has grown.
    const countAddress = (hashes: string, i: number) => sql`
      (select count(*) from (
        select 1 from quotes
        where ${CREATED_HOUR} in (${hour - 1}, ${hour}) and ${hasPrefix(hashes)}
          and ${isOpen(sql`created_at + 0`)}
        limit ${limits.perAddress[i] ?? 0}
      ) as open) as ${sql.ref(`address${i}`)}`;
    const countPair = (hashes: string, i: number) =>
      sql`count(*) filter (where ${hasPrefix(hashes)}) as ${sql.ref(`pair${i}`)}`;
    // Ignores invoices with a time far in the future, which were stored while the clock was wrong.
    // The pairs are counted among the invoices that are read for the recipient. Without a limit for the recipient, they
    // are the only count. There is no `order by`, because PostgreSQL could sort all rows before it applies the limit.
    const isPair =
      limits.perRecipient === 0 ? sql`and ${hasPrefix(addressHashes.at(-1) ?? '')}` : sql``;
    const { rows } = await sql<Record<string, number>>`
      select recipient.*, ${sql.join(addressHashes.map(countAddress))}
      from (
        select count(*) as "perRecipient", ${sql.join(addressHashes.map(countPair))}
        from (
          select address_hashes from quotes
          where pubkey = ${pubkey} and address_hashes is not null ${isPair}
            and ${isOpen(sql`created_at`)} and created_at <= ${nowMs + ageLimitsMs.max}
          limit ${limits.perRecipient || limits.perPair}
        ) as open
      ) as recipient
    `.execute(this.db);
    const get = (name: string) => rows[0]?.[name] ?? 0;
    return {
      perRecipient: get('perRecipient'),
      perPair: addressHashes.map((_, i) => get(`pair${i}`)),
      perAddress: addressHashes.map((_, i) => get(`address${i}`)),
    };
  }

  /** Finds a quote by the token of its verify URL (LUD-21). Only the hash of the token is stored. */
  async findByVerifyToken(token: string): Promise<VerifiableQuote | null> {
    const row = await this.db
      .selectFrom('quotes')
      .select([
        'pubkey',
        'request',
        'state',
        'amount_sat as amountSat',
        'expires_at as expiresAtMs',
      ])
      .where('verify_token_hash', '=', hash('sha256', token))
      .executeTakeFirst();
    return row ?? null;
  }
}

/** Builds an expression for the number of listed payments of a recipient, which is the newest one's `paid_seq`. */
function countListed(pubkey: string): RawBuilder<number> {
  return sql`coalesce((
    select case
      when last_paid_at < listed_until then paid_count
      else ${countPaidBefore(pubkey, sql`listed_until`)}
    end
    from users where pubkey = ${pubkey}
  ), 0)`;
}

/**
 * Builds the condition on a row of `users` that payments can be listed now. A payment that found its second closed is
 * dated exactly `listed_until`, and must wait for that second. Every other payment is dated by the clock of the
 * process that recorded it, which may be ahead of this one.
 */
function hasNewPayments(nowMs: number): RawBuilder<boolean> {
  return sql`(
    last_paid_at > listed_until or (
      last_paid_at = listed_until
      and (last_paid_at <= ${nowMs + CLOCK_TOLERANCE_MS} or last_paid_at > ${nowMs + MAX_AHEAD_MS})
    )
  )`;
}

/** Builds an expression for the number of payments to a recipient before a time (milliseconds since 1970). */
function countPaidBefore(pubkey: string, timeMs: RawBuilder<unknown>): RawBuilder<number> {
  return sql`coalesce((
    select paid_seq from quotes
    where pubkey = ${pubkey} and paid_seq is not null and paid_at < ${timeMs}
    order by paid_at desc, paid_seq desc limit 1
  ), 0)`;
}

function toQuoteKey({ mintUrl, quoteId }: Pick<NewQuote, 'mintUrl' | 'quoteId'>): string {
  return `${mintUrl} ${quoteId}`;
}

function compareStrings(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

const MAX_INSERTS_PER_COMMIT = 100;

interface QueuedQuote {
  quote: NewQuote;
  resolve: (id: number | null) => void;
  reject: (error: unknown) => void;
}

/**
 * Stores new quotes. Quotes that arrive during a commit share the next commit, because a commit, which waits for the
 * disk, takes much longer than an insert.
 */
export class QuoteWriter {
  readonly #writer: BatchWriter<QueuedQuote>;

  constructor(quotes: Pick<QuoteStore, 'insert'>) {
    this.#writer = new BatchWriter({
      write: async (batch) => {
        const ids = await quotes.insert(batch.map(({ quote }) => quote));
        for (const [i, { resolve }] of batch.entries()) {
          resolve(ids[i] ?? null);
        }
      },
      onError: (error, batch) => {
        for (const { reject } of batch) {
          reject(error);
        }
      },
      delayMs: 0,
      maxBatchSize: MAX_INSERTS_PER_COMMIT,
    });
  }

  /** Resolves after the commit with the row id, or with null if the quote id is already stored for its mint. */
  insert(quote: NewQuote): Promise<number | null> {
    return new Promise((resolve, reject) => this.#writer.add({ quote, resolve, reject }));
  }
}
