import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Database } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { TraceStore } from '../../src/store/trace-store.ts';
import { keepPayments } from '../helpers/paid-quotes.ts';
import { costOf } from '../helpers/query-cost.ts';
import { unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { useDatabase } from '../helpers/use-database.ts';

/** A trace costs what it gives, however many quotes there are, and whoever has them. */

const QUOTES_OF_EACH = 3_000;

let database: Database;
/** Of a recipient with many payments and many open quotes, others having newer ones. */
let pubkey: string;
let paymentHash: string;
let quoteId: string;

useDatabase((opened) => {
  database = opened;
});

beforeAll(async () => {
  await sql`insert into users (pubkey) select gen_random_uuid() from generate_series(1, 3000)`.execute(
    database.db,
  );
  pubkey = newPubkey();
  await keepPayments(database, pubkey, QUOTES_OF_EACH);
  await keepOpen(pubkey, 'https://m1.example');
  const wanted = unpaidQuote(newPubkey(), { mintUrl: 'https://m2.example' });
  await new Store(database.db).quotes.insert(wanted);
  ({ paymentHash, quoteId } = wanted);
  for (const mintUrl of ['https://m3.example', 'https://m4.example']) {
    await keepOpen(newPubkey(), mintUrl);
    await keepPayments(database, newPubkey(), QUOTES_OF_EACH);
  }
});

describe.each([
  ['before the database has counted its rows', false],
  ['after it has', true],
])('%s', (_when, isAnalysed) => {
  beforeAll(async () => {
    if (isAnalysed) {
      await sql`analyze`.execute(database.db);
    }
  });

  it.each([
    ['a payment hash', 1, (traces: TraceStore) => traces.findByPaymentHash(paymentHash, 5)],
    // A row for each of the five mints, to know it, and the quote.
    ['a quote id', 6, (traces: TraceStore) => traces.findByQuoteId(quoteId, 5)],
    // Ten, and the recipient's counter.
    ["a recipient's payments", 11, (traces: TraceStore) => traces.listPayments(pubkey, 10)],
    ["a recipient's open quotes", 11, (traces: TraceStore) => traces.listOpen(pubkey, 11)],
  ])('%s is found by reading what is given, and no more', async (_what, rows, call) => {
    const cost = await costOf(database.db, (db) => call(new TraceStore(db)));
    // PostgreSQL 15 rounds the averages of loops.
    expect(cost.rows).toBeGreaterThan(0);
    expect(cost.rows).toBeLessThanOrEqual(rows);
    expect(cost.pages).toBeLessThan(60);
  });
});

async function keepOpen(recipient: string, mintUrl: string): Promise<void> {
  await sql`
    insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked,
                        created_at, expires_at, watch_until, payment_hash)
    select ${mintUrl}, gen_random_uuid(), ${recipient}, 'lnbc1', 21, 'UNPAID', false,
           now() - number * interval '1 s', now(), now(), encode(sha256(random()::text::bytea), 'hex')
    from generate_series(1, ${QUOTES_OF_EACH}::int) as number
  `.execute(database.db);
}

function newPubkey(): string {
  return randomBytes(32).toString('hex');
}
