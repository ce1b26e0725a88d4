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
  /** A keyed hash of the payer's address group. */
  addressGroupHash: string | null;
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

export interface OpenInvoiceCounts {
  perRecipient: number;
  perAddressGroup: number;
  perPair: number;
}

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
  address_group_hash: 'text',
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
      address_group_hash: quote.addressGroupHash,
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
   * Counts the open invoices of a recipient, of an address group, and of both together. Stops counting at the limits;
   * a limit of 0 counts nothing. An invoice is open while its quote is UNPAID or INFLIGHT and has not expired. These
   * quotes have the hash of an address group.
   *
   * @param ageLimitsMs an invoice is open for at least `min` and at most `max`, whenever it expires
   */
  async countOpenInvoices(
    { pubkey, addressGroupHash }: { pubkey: string; addressGroupHash: string },
    limits: OpenInvoiceCounts,
    ageLimitsMs: { min: number; max: number },
    nowMs: number,
  ): Promise<OpenInvoiceCounts> {
    // Ignores invoices with a time far in the future, which were stored while the clock was wrong.
    const isOpen = sql`
      created_at > ${nowMs - ageLimitsMs.max}
      and created_at <= ${nowMs + ageLimitsMs.max}
      and (expires_at > ${nowMs} or created_at > ${nowMs - ageLimitsMs.min})`;
    // The pair is counted among the invoices that are read for the recipient. Without a limit for the recipient, it is
    // the only count. There is no `order by`, because PostgreSQL could sort all rows before it applies the limit.
    const isPair =
      limits.perRecipient === 0 ? sql`and address_group_hash = ${addressGroupHash}` : sql``;
    const { rows } = await sql<OpenInvoiceCounts>`
      select recipient.invoices as "perRecipient", recipient.pair as "perPair",
        (select count(*) from (
          select 1 from quotes where address_group_hash = ${addressGroupHash} and ${isOpen}
          limit ${limits.perAddressGroup}
        ) as open) as "perAddressGroup"
      from (
        select count(*) as invoices, count(*) filter (where address_group_hash = ${addressGroupHash}) as pair
        from (
          select address_group_hash from quotes
          where pubkey = ${pubkey} and address_group_hash is not null ${isPair} and ${isOpen}
          limit ${limits.perRecipient || limits.perPair}
        ) as open
      ) as recipient
    `.execute(this.db);
    return rows[0] ?? { perRecipient: 0, perAddressGroup: 0, perPair: 0 };
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
