import { hash } from 'node:crypto';
import { sql } from 'kysely';
import { MAX_PAGE_SIZE } from '../../src/domain/limits.ts';
import type { Database } from '../../src/store/database.ts';
import { pubkeyOf } from './wallets.ts';

/** Users who were all paid as often. */
export interface PaidUsers {
  /** The number of the first; the others follow. */
  first: number;
  users: number;
  /** Of each. */
  payments: number;
}

const MINT_URL = 'https://mint.example';

/** One statement keeps no more: the service's own timeout ends what takes half a minute. */
const QUOTES_AT_ONCE = 50_000;

/** In seconds: between two payments of a user, and from a quote to its payment and to its end. */
const PAID_EVERY = 2;
const PAID_AFTER = 20;
const EXPIRES_AFTER = 3_600;

const INVOICE_LENGTH = 300;

/** When everybody was paid last (unix seconds): a whole second, as the list gives times. */
const LAST_PAID_AT = Math.floor(Date.now() / 1000);

/**
 * Puts the paid quotes of some users into the table, where they lie as they come in: by turns. Payments of a user
 * are numbered from 1; number and user are in the quote's id and in its invoice, the number is its amount (sat).
 */
export async function addPaidQuotes(
  db: Database['db'],
  { first, users, payments }: PaidUsers,
): Promise<void> {
  await sql`
    insert into users (pubkey, paid_count, last_paid_at)
    select lpad(to_hex(user_number), 64, '0'), ${payments}::bigint,
           to_timestamp(${LAST_PAID_AT}::bigint)
    from generate_series(${first}::int, ${first + users - 1}::int) as user_number`.execute(db);
  const total = users * payments;
  for (let start = 0; start < total; start += QUOTES_AT_ONCE) {
    const last = Math.min(start + QUOTES_AT_ONCE, total) - 1;
    await sql`
      insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked,
                          created_at, expires_at, paid_at, paid_seq)
      select ${MINT_URL},
             lpad(to_hex(user_number), 12, '0') || lpad(to_hex(seq), 12, '0'),
             lpad(to_hex(user_number), 64, '0'),
             rpad('lnbc', ${INVOICE_LENGTH}::int, md5(user_number || ' ' || seq)), seq, 'ISSUED', false,
             to_timestamp(paid_at - ${PAID_AFTER}::int), to_timestamp(paid_at + ${EXPIRES_AFTER}::int),
             to_timestamp(paid_at), seq
      from generate_series(${start}::bigint, ${last}::bigint) as number
      cross join lateral (
        select ${first}::int + number % ${users}::int as user_number,
               number / ${users}::int + 1 as seq
      ) as payment
      cross join lateral (
        select ${LAST_PAID_AT}::bigint - (${payments}::bigint - seq) * ${PAID_EVERY}::int as paid_at
      ) as time`.execute(db);
  }
  await sql`analyze`.execute(db);
}

/**
 * The whole answer with a page of a user's paid quotes, put together from their numbers alone.
 *
 * @param user the number of the user
 * @param payments how many that user has
 */
export function paidPage(user: number, payments: number, offset = 0): string {
  const quotes = Array.from({ length: Math.min(MAX_PAGE_SIZE, payments - offset) }, (_, row) =>
    paidQuote(user, payments - offset - row, payments),
  );
  const metadata = { total: payments, limit: MAX_PAGE_SIZE, ...(offset > 0 && { offset }) };
  return JSON.stringify({ error: false, data: { quotes }, metadata });
}

function paidQuote(user: number, seq: number, payments: number) {
  const paidAt = LAST_PAID_AT - (payments - seq) * PAID_EVERY;
  return {
    createdAt: paidAt - PAID_AFTER,
    paidAt,
    expiresAt: paidAt + EXPIRES_AFTER,
    mintUrl: MINT_URL,
    quoteId: pubkeyOf(user).slice(-12) + seq.toString(16).padStart(12, '0'),
    request: 'lnbc'.padEnd(INVOICE_LENGTH, hash('md5', `${user} ${seq}`)),
    amount: seq,
    state: 'ISSUED',
    locked: false,
  };
}
