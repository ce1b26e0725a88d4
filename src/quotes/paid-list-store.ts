import { type RawBuilder, sql } from 'kysely';
import { columnInValues } from '../database/sql.ts';
import type { Db } from '../database/transaction.ts';
import { DatabaseUnavailableError } from '../errors.ts';
import { CLOCK_TOLERANCE_MS, MAX_AHEAD_MS, type PaidQuoteState } from './quote-state.ts';
import { type Quote, SELECT_QUOTE } from './quote-store.ts';

export interface ListedQuote extends Quote {
  state: PaidQuoteState;
  paidAtMs: number;
}

interface PaidPage {
  /** Only payments later than this Unix time. */
  sinceSeconds: number | null;
  limit: number;
  offset: number;
}

const MAX_DATE_SECONDS = 8_640_000_000_000;

/**
 * Returns one page of a recipient's paid quotes, the newest first, and the total. Only the first page lists new payments:
 * a wallet that continues to read could get some payments of a second, and would ignore the others later.
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
 * Lists the payments that were recorded since the last call, unless the newest one is dated in the next second. Later
 * payments get a later second (ADR 40). Does nothing if the database cannot write.
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
 * A page is a range of `paid_seq`, which has no gaps, so every page costs the same. The range needs a lower bound,
 * too: without it, PostgreSQL reads and sorts all older payments.
 */
async function readPaidPage(db: Db, pubkey: string, page: PaidPage, nowMs: number) {
  const sinceMs =
    page.sinceSeconds === null ? -1 : Math.min(page.sinceSeconds, MAX_DATE_SECONDS) * 1000;
  const end = page.offset + page.limit;
  const { rows } = await sql<ListedQuote & { total: number; hasNew: 0 | 1 }>`
    with bounds as materialized (
      select ${countListed(pubkey)} as newest, ${countPaidBefore(pubkey, sql`${sinceMs + 1}`)} as seen,
        (select count(*) from users where pubkey = ${pubkey} and ${hasNewPayments(nowMs)}) as has_new
    )
    select newest - seen as total, has_new as "hasNew", ${SELECT_QUOTE}
    from bounds left join quotes on pubkey = ${pubkey} and paid_seq is not null
      and paid_seq <= newest - ${page.offset}
      and paid_seq > case when seen > newest - ${end} then seen else newest - ${end} end
    order by paid_seq desc
  `.execute(db);
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
export async function findListedQuotes(
  db: Db,
  pubkey: string,
  quoteIds: readonly string[],
  nowMs: number,
): Promise<ListedQuote[]> {
  await makeNewPaymentsVisible(db, pubkey, nowMs);
  const { rows } = await sql<ListedQuote>`
    with bounds as materialized (select ${countListed(pubkey)} as newest),
    -- Otherwise SQLite may read all payments of the recipient.
    found as materialized (
      select * from quotes where ${columnInValues(db, 'quote_id', 'text', quoteIds)}
    )
    select ${SELECT_QUOTE} from bounds cross join found
    where pubkey = ${pubkey} and paid_seq <= newest
  `.execute(db);
  return rows;
}

/** Adds up a recipient's newest payments, and those of them that are not ISSUED. `total` counts all payments. */
export async function summarisePaidQuotes(db: Db, pubkey: string, maxPayments: number) {
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
  `.execute(db);
  return (
    rows[0] ?? { total: 0, payments: 0, amountSat: 0, waitingPayments: 0, waitingAmountSat: 0 }
  );
}

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

function countPaidBefore(pubkey: string, timeMs: RawBuilder<unknown>): RawBuilder<number> {
  return sql`coalesce((
    select paid_seq from quotes
    where pubkey = ${pubkey} and paid_seq is not null and paid_at < ${timeMs}
    order by paid_at desc, paid_seq desc limit 1
  ), 0)`;
}
