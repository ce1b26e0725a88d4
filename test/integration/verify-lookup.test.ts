import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Database } from '../../src/store/database.ts';
import { QuoteStore } from '../../src/store/quote-store.ts';
import { costOf } from '../helpers/query-cost.ts';
import { NOWHERE_MINT, unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { useDatabase } from '../helpers/use-database.ts';

/** How the quote behind a verify url is found among many (LUD-21). */

const OTHER_QUOTES = 3_000;

const PUBKEY = 'ab'.repeat(32);

let database: Database;
let quotes: QuoteStore;

useDatabase((opened) => {
  database = opened;
});

beforeAll(async () => {
  quotes = new QuoteStore(database.db);
  await sql`
    insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked, created_at,
                        expires_at, verify_token)
    select ${NOWHERE_MINT}, 'other' || n, ${PUBKEY}, 'lnbc' || n, 21, 'UNPAID', false, now(), now(),
           case when n % 3 > 0 then encode(sha256(n::text::bytea), 'hex') end
    from generate_series(1, ${OTHER_QUOTES}::int) as n`.execute(database.db);
});

describe('a verify token', () => {
  it('finds its quote, and nothing else does', async () => {
    const token = '5eed'.repeat(16);
    const quote = unpaidQuote(PUBKEY, { verifyToken: token });
    await quotes.insert(quote);
    expect(await quotes.findByVerifyToken(token)).toEqual({
      request: quote.request,
      state: 'UNPAID',
    });
    for (const wrong of [
      token.slice(0, -1),
      `${token.slice(0, -1)}e`,
      `${token}0`,
      token.toUpperCase(),
      createHash('sha256').update(token).digest('hex'),
      '',
      '\\x00',
    ]) {
      expect(await quotes.findByVerifyToken(wrong), wrong).toBeNull();
    }
  });

  it('is looked up at the price of one row, whether there is such a one or not', async () => {
    const quote = unpaidQuote(PUBKEY);
    await quotes.insert(quote);
    for (const [token, rows] of [
      [quote.verifyToken, 1],
      ['0'.repeat(64), 0],
    ] as const) {
      const cost = await costOf(database.db, (db) => new QuoteStore(db).findByVerifyToken(token));
      expect(cost.rows).toBe(rows);
      expect(cost.pages).toBeLessThan(10);
    }
  });

  it('is in no index as it is, and in one by its hash', async () => {
    const { rows } = await sql<{ indexdef: string }>`
      select indexdef from pg_indexes
      where tablename = 'quotes' and indexdef like '%verify_token%'`.execute(database.db);
    expect(rows).toEqual([
      { indexdef: expect.stringMatching(/^CREATE UNIQUE INDEX .*sha256\(.*verify_token/) },
    ]);
  });

  it('is never that of two quotes', async () => {
    const quote = unpaidQuote(PUBKEY);
    await quotes.insert(quote);
    const twin = unpaidQuote(PUBKEY, { verifyToken: quote.verifyToken });
    await expect(quotes.insert(twin)).rejects.toThrow('quotes_by_verify_token');
  });
});
