import { type Kysely, sql } from 'kysely';
import { parseMintInfo } from '../../src/domain/mint-info.ts';
import { watchUntilMs } from '../../src/domain/poll-schedule.ts';
import type { Schema } from '../../src/store/schema.ts';
import { Store } from '../../src/store/store.ts';
import { AMOUNT_SAT, fieldInvoice, fieldMintInfo, fieldQuoteId, isPaidBefore } from './field.ts';
import type { FieldMint } from './mint-field.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** What mints give an invoice; two of three quotes have the first, the third has the other. */
const SHORT_LIFE_MS = HOUR_MS;
const LONG_LIFE_MS = DAY_MS;

/** A quote is watched until a day after its expiry, and none reaches that while it is measured. */
const WATCHED_AFTER_EXPIRY_MS = DAY_MS - HOUR_MS;

/** A paid quote that nobody collects is watched for a week. */
const WATCHED_AFTER_PAYMENT_MS = 7 * DAY_MS - HOUR_MS;

/** An open quote, as it was made. Times in milliseconds since 1970. */
export interface OpenQuote {
  mint: FieldMint;
  /** Its number at its mint. */
  number: number;
  quoteId: string;
  createdAtMs: number;
  expiresAtMs: number;
  /** Null where it is unpaid. */
  paidAtMs: number | null;
}

/**
 * The quotes of a mint whose recipients are asked for an invoice at a steady pace, as they are open
 * at one moment: the ages of each kind are spread evenly over the time that it is watched.
 */
export function openQuotes(mint: FieldMint, count: number, nowMs: number): OpenQuote[] {
  return Array.from({ length: count }, (_, number) => {
    const isPaid = isPaidBefore(number);
    const lifeMs = number % 3 === 0 ? LONG_LIFE_MS : SHORT_LIFE_MS;
    const watchedMs = isPaid ? WATCHED_AFTER_PAYMENT_MS : lifeMs + WATCHED_AFTER_EXPIRY_MS;
    const ageMs = watchedMs * evenly(number, mint.number);
    const createdAtMs = nowMs - ageMs - (isPaid ? MINUTE_MS : 0);
    return {
      mint,
      number,
      quoteId: fieldQuoteId(mint.number, number),
      createdAtMs,
      expiresAtMs: createdAtMs + lifeMs,
      paidAtMs: isPaid ? nowMs - ageMs : null,
    };
  });
}

/**
 * Stores open quotes as a service leaves them that has watched them until now. Each has a recipient of its
 * own. What the mints said about themselves is stored too.
 */
export async function keepOpenQuotes(
  db: Kysely<Schema>,
  mints: readonly FieldMint[],
  quotes: readonly OpenQuote[],
  nowMs: number,
): Promise<void> {
  const byMint = Map.groupBy(quotes, ({ mint }) => mint);
  for (const mint of mints) {
    await keepMint(db, mint, byMint.get(mint) ?? [], nowMs);
  }
  await sql`analyze`.execute(db);
}

async function keepMint(
  db: Kysely<Schema>,
  mint: FieldMint,
  quotes: readonly OpenQuote[],
  nowMs: number,
): Promise<void> {
  const info = parseMintInfo(fieldMintInfo(mint.kind));
  if (info === null) {
    throw new Error('a mint of the field says what it can do');
  }
  await new Store(db).mints.rememberInfo(mint.url, info, nowMs);
  const rows = quotes.toSorted((a, b) => a.createdAtMs - b.createdAtMs).map(toRow);
  await sql`
    with open as (
      select * from json_to_recordset(${JSON.stringify(rows)}::json)
        as open (quote_id text, pubkey text, request text, state text, created_at timestamptz,
                 expires_at timestamptz, paid_at timestamptz, watch_until timestamptz,
                 payment_hash text)
    ), recipients as (
      insert into users (pubkey, paid_count, last_paid_at)
      select pubkey, 1, paid_at from open where paid_at is not null
    )
    insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked, created_at,
                        expires_at, paid_at, paid_seq, watch_until, payment_hash)
    select ${mint.url}, quote_id, pubkey, request, ${AMOUNT_SAT}::bigint, state, false, created_at,
           expires_at, paid_at, case when paid_at is not null then 1 end, watch_until, payment_hash
    from open`.execute(db);
}

function toRow(quote: OpenQuote) {
  const { quoteId, createdAtMs, expiresAtMs, paidAtMs } = quote;
  const state = stateOf(quote);
  return {
    quote_id: quoteId,
    pubkey: quoteId.replaceAll('-', '').padStart(64, '0'),
    payment_hash: quoteId.replaceAll('-', '').padEnd(64, '0'),
    request: fieldInvoice(quoteId),
    state,
    created_at: toIso(createdAtMs),
    expires_at: toIso(expiresAtMs),
    paid_at: toIso(paidAtMs),
    watch_until: toIso(watchUntilMs({ ...quote, state })),
  };
}

/** What the mint reports about a quote. */
export function stateOf({ paidAtMs }: Pick<OpenQuote, 'paidAtMs'>): 'UNPAID' | 'PAID' {
  return paidAtMs === null ? 'UNPAID' : 'PAID';
}

/** Numbers from 0 to 1, spread evenly over a row of quotes, and otherwise at each mint. */
function evenly(quote: number, mint: number): number {
  return (quote * GOLDEN_RATIO + mint / 100) % 1;
}

const GOLDEN_RATIO = (Math.sqrt(5) - 1) / 2;

function toIso(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
