import { type RawBuilder, sql } from 'kysely';
import { columnInValues } from '../database/sql.ts';
import type { Db } from '../database/transaction.ts';
import { DatabaseUnavailableError } from '../errors.ts';
import { COLLECT_BY } from './collect-deadline-store.ts';
import { MAX_AHEAD_MS, type PaidQuoteState } from './quote-state.ts';
import { QUOTE_COLUMNS, type Quote } from './quote-store.ts';

export interface ListedQuote extends Quote {
  state: PaidQuoteState;
  paidAtMs: number;
  collectByMs: number | null;
}

const LISTED_COLUMNS = sql`${QUOTE_COLUMNS}, ${COLLECT_BY} as "collectByMs"`;

interface PaidPage {
  /** Only payments later than this Unix time. */
  sinceSeconds: number | null;
  limit: number;
  offset: number;
}

/** The largest `Date`. A later time would not be a safe integer in milliseconds. */
const MAX_DATE_SECONDS = 8_640_000_000_000;

/**
 * Returns one page of a recipient's paid quotes, the newest first, and the total. Only the first page makes new payments
 * visible: from another page, a wallet would get only some payments of a second, and ignore the others later.
 */
export async function listPaidQuotes(
  db: Db,
  pubkey: string,
  page: PaidPage,
  nowMs: number,
): Promise<{ quotes: ListedQuote[]; total: number }> {
  const firstRead = await readPaidPage(db, pubkey, page, nowMs);
  if (!firstRead.hasNewPayments || page.offset > 0) {
    return firstRead;
  }
  await makeNewPaymentsVisible(db, pubkey, nowMs);
  return await readPaidPage(db, pubkey, page, nowMs);
}

/**
 * Adds the payments that were recorded since the last call to the list, unless the newest one is dated in the next second.
 * Payments that are recorded from now on get a later second (ADR 40). Does nothing if the database cannot write.
 */
async function makeNewPaymentsVisible(db: Db, pubkey: string, nowMs: number): Promise<void> {
  try {
    await sql`
      update users set listed_until = (last_paid_at / 1000 + 1) * 1000
      where pubkey = ${pubkey} and ${hasNewPayments(nowMs)}
    `.execute(db);
  } catch (error) {
    if (!(error instanceof DatabaseUnavailableError)) {
      throw error;
    }
  }
}

/**
 * Reads a range of `paid_seq`, which numbers a recipient's payments from 1 without gaps, so every page costs the same.
 * Without the lower bound of the range, PostgreSQL would read and sort all older payments.
 */
async function readPaidPage(db: Db, pubkey: string, page: PaidPage, nowMs: number) {
  const sinceMs =
    page.sinceSeconds === null ? -1 : Math.min(page.sinceSeconds, MAX_DATE_SECONDS) * 1000;
  const pageEnd = page.offset + page.limit;
  const { rows } = await sql<ListedQuote & { total: number; hasNewPayments: 0 | 1 }>`
    with counts as materialized (
      select ${countListed(pubkey)} as listed,
        ${countPaid(pubkey, sql`paid_at <= ${sinceMs}`)} as until_since,
        (select count(*) from users where pubkey = ${pubkey} and ${hasNewPayments(nowMs)}) as has_new
    )
    select listed - until_since as total, has_new as "hasNewPayments", ${LISTED_COLUMNS}
    from counts left join quotes on pubkey = ${pubkey} and paid_seq is not null
      and paid_seq <= listed - ${page.offset}
      and paid_seq > case -- the larger one
        when until_since > listed - ${pageEnd} then until_since else listed - ${pageEnd}
      end
    order by paid_seq desc
  `.execute(db);
  // If the page is empty, the only row contains the counts, and null in all columns of `quotes`.
  const isQuote = ({ quoteId }: { quoteId: string | null }) => quoteId !== null;
  return {
    // Negative if payments until `since` are not listed yet.
    total: Math.max(0, rows[0]?.total ?? 0),
    quotes: rows.filter(isQuote),
    hasNewPayments: rows[0]?.hasNewPayments === 1,
  };
}

/** Returns a recipient's listed quotes with these ids. Several mints may use the same id. */
export async function findListedQuotes(
  db: Db,
  pubkey: string,
  quoteIds: readonly string[],
  nowMs: number,
): Promise<ListedQuote[]> {
  await makeNewPaymentsVisible(db, pubkey, nowMs);
  const { rows } = await sql<ListedQuote>`
    with counts as materialized (select ${countListed(pubkey)} as listed),
    -- Materialized, because SQLite may otherwise read all payments of the recipient.
    found as materialized (
      select * from quotes where ${columnInValues(db, 'quote_id', 'text', quoteIds)}
    )
    select ${LISTED_COLUMNS} from counts cross join found
    where pubkey = ${pubkey} and paid_seq <= listed
  `.execute(db);
  return rows;
}

/**
 * Adds up a recipient's newest payments, and those that wait for the wallet. `total` counts all payments. `collectByMs` is
 * the first deadline that has not passed.
 */
export async function summarisePaidQuotes(
  db: Db,
  pubkey: string,
  maxPayments: number,
  nowMs: number,
) {
  const { rows } = await sql<{
    total: number;
    payments: number;
    amountSat: number;
    waitingPayments: number;
    waitingAmountSat: number;
    waitingLocked: number;
    collectByMs: number | null;
  }>`
    with counts as materialized (
      select coalesce((select paid_count from users where pubkey = ${pubkey}), 0) as total
    )
    select total,
           count(paid_seq) as payments,
           cast(coalesce(sum(amount_sat), 0) as bigint) as "amountSat",
           count(paid_seq) filter (where state <> 'ISSUED') as "waitingPayments",
           cast(coalesce(sum(amount_sat) filter (where state <> 'ISSUED'), 0) as bigint) as "waitingAmountSat",
           count(paid_seq) filter (where state <> 'ISSUED' and locked = 1) as "waitingLocked",
           min(${COLLECT_BY}) filter (where expires_at > ${nowMs}) as "collectByMs"
    from counts left join quotes on pubkey = ${pubkey} and paid_seq is not null
      and paid_seq <= total and paid_seq > total - ${maxPayments}
    group by total
  `.execute(db);
  const none = { payments: 0, amountSat: 0, waitingPayments: 0, waitingAmountSat: 0 };
  return rows[0] ?? { total: 0, ...none, waitingLocked: 0, collectByMs: null };
}

function countListed(pubkey: string): RawBuilder<number> {
  return sql`coalesce((
    select case
      when last_paid_at < listed_until then paid_count
      else ${countPaid(pubkey, sql`paid_at < listed_until`)}
    end
    from users where pubkey = ${pubkey}
  ), 0)`;
}

/** A wallet may read the list from a process whose clock is so far behind that of the process that sent the update. */
const CLOCK_TOLERANCE_MS = 150;

/**
 * Builds the condition on a row of `users` that the recipient has payments that are not listed yet and can be now. A
 * payment in a second that wallets had already read is dated `listed_until`, and must wait for that time. Every other
 * payment is dated by the clock of the process that recorded it, which may be ahead of this one.
 */
function hasNewPayments(nowMs: number): RawBuilder<boolean> {
  return sql`(
    last_paid_at > listed_until or (
      last_paid_at = listed_until
      and (last_paid_at <= ${nowMs + CLOCK_TOLERANCE_MS} or last_paid_at > ${nowMs + MAX_AHEAD_MS})
    )
  )`;
}

/** Builds the number of payments that meet a condition on `paid_at`: it is the `paid_seq` of the last one. */
function countPaid(pubkey: string, paidAtCondition: RawBuilder<unknown>): RawBuilder<number> {
  return sql`coalesce((
    select paid_seq from quotes
    where pubkey = ${pubkey} and paid_seq is not null and ${paidAtCondition}
    order by paid_at desc, paid_seq desc limit 1
  ), 0)`;
}
