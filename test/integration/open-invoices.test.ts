import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import type { Database } from '../../src/store/database.ts';
import { QuoteStore } from '../../src/store/quote-store.ts';
import { OpenInvoices } from '../../src/usecases/open-invoices.ts';
import { costOf } from '../helpers/query-cost.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { CREATED_AT_MS, NOWHERE_MINT, unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { useDatabase } from '../helpers/use-database.ts';

/** How invoices that wait for their payment are counted, and what that costs. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** Less than the service comes with, to be reached soon. */
const LIMIT = 400;

let database: Database;
let quotes: QuoteStore;

useDatabase((opened) => {
  database = opened;
  quotes = new QuoteStore(opened.db);
});

describe('open invoices of a recipient', () => {
  const bounds = { openForMs: HOUR, nowMs: CREATED_AT_MS + 30 * MINUTE, limit: 10 };

  it('are those that can be paid, were made in the last hour and are not paid', async () => {
    const pubkey = newPubkey();
    expect(await quotes.countOpen(pubkey, bounds)).toEqual({ count: 0, firstClosesAtMs: null });
    const long = { expiresAtMs: CREATED_AT_MS + 10 * HOUR };
    await quotes.insert(unpaidQuote(pubkey, { ...long, createdAtMs: CREATED_AT_MS - HOUR }));
    await quotes.insert(unpaidQuote(pubkey, { expiresAtMs: bounds.nowMs }));
    await quotes.insert(unpaidQuote(newPubkey(), long));
    await quotes.insert(unpaidQuote(pubkey, long));
    await quotes.insert(unpaidQuote(pubkey, { expiresAtMs: bounds.nowMs + 1 }));
    const paid = unpaidQuote(pubkey, long);
    await quotes.insert(paid);
    await sql`
      update quotes set state = 'INFLIGHT', paid_seq = 1, paid_at = now()
      where quote_id = ${paid.quoteId}`.execute(database.db);

    expect(await quotes.countOpen(pubkey, bounds)).toEqual({
      count: 2,
      firstClosesAtMs: bounds.nowMs + 1,
    });
    expect(await quotes.countOpen(pubkey, { ...bounds, nowMs: bounds.nowMs + 1 })).toEqual({
      count: 1,
      firstClosesAtMs: CREATED_AT_MS + HOUR,
    });
  });

  it.each([
    ['before the database has counted its rows', 'select 1'],
    ['after it has', 'analyze'],
  ])('are counted by reading no more of them than may be: %s', async (_when, statement) => {
    const pubkey = newPubkey();
    await keepOpen(newPubkey(), 3_000);
    await keepOpen(pubkey, 3_000);
    await keepOpen(newPubkey(), 3_000);
    await sql.raw(statement).execute(database.db);
    const cost = await costOf(database.db, (db) =>
      new QuoteStore(db).countOpen(pubkey, { ...bounds, limit: 100 }),
    );
    expect(cost.rows).toBeGreaterThan(0);
    expect(cost.rows).toBeLessThanOrEqual(100);
  });

  it('cost no query where they are few, and few queries until there are too many', async () => {
    const clock = new TestClock(CREATED_AT_MS);
    const { open, asked } = watched(clock);
    const pubkey = newPubkey();
    expect(await fill([open], pubkey, LIMIT / 8)).toBe(LIMIT / 8);
    expect(asked()).toBe(0);
    expect(await fill([open], pubkey, 2 * LIMIT)).toBe(LIMIT - LIMIT / 8);
    expect(asked()).toBeLessThan(60);
    const askedUntilFull = asked();
    await expect(open.take(pubkey, 'a')).rejects.toThrow(/Try again in 60 s/);
    expect(asked()).toBe(askedUntilFull);
  });

  it('are bounded for all processes together', async () => {
    const clock = new TestClock(CREATED_AT_MS);
    const processes = Array.from({ length: 4 }, () => watched(clock).open);
    expect(await fill(processes, newPubkey(), 2 * LIMIT)).toBe(LIMIT);
  });

  it('are bounded where many are asked for at once', async () => {
    const { open } = watched(new TestClock(CREATED_AT_MS));
    const pubkey = newPubkey();
    const asked = await Promise.allSettled(
      Array.from({ length: 2 * LIMIT }, async () => {
        const place = await open.take(pubkey, 'a');
        const quote = unpaidQuote(pubkey);
        await quotes.insert(quote);
        place.settle(quote);
      }),
    );
    const given = asked.filter(({ status }) => status === 'fulfilled').length;
    // What was being made counted twice while it was being kept.
    expect(given).toBeLessThanOrEqual(LIMIT);
    expect(given).toBeGreaterThan(0.9 * LIMIT);
  });

  it('are counted again where the database did not answer', async () => {
    const clock = new TestClock(CREATED_AT_MS);
    let isDown = true;
    const open = new OpenInvoices({
      quotes: {
        countOpen: (...args) =>
          isDown ? Promise.reject(new Error('it is down')) : quotes.countOpen(...args),
        findUnpaid: (asked) => quotes.findUnpaid(asked),
      },
      perRecipient: 1,
      perAddress: 1,
      clock: clock.now,
    });
    const pubkey = newPubkey();
    await expect(open.take(pubkey, 'a')).rejects.toThrow('it is down');
    isDown = false;
    // Neither the recipient nor the address has used its only place.
    await expect(open.take(pubkey, 'a')).resolves.toBeDefined();
  });
});

describe('open invoices of an address', () => {
  it('are those of its quotes that are kept and not paid', async () => {
    const kept = [unpaidQuote(newPubkey()), unpaidQuote(newPubkey()), unpaidQuote(newPubkey())];
    for (const quote of kept) {
      await quotes.insert(quote);
    }
    const [first, second, third] = kept.map(({ quoteId }) => ({ mintUrl: NOWHERE_MINT, quoteId }));
    await sql`
      update quotes set state = 'PAID', paid_seq = 1, paid_at = now()
      where quote_id = ${second?.quoteId}`.execute(database.db);
    const asked = [first, second, third, { mintUrl: 'https://m.example', quoteId: 'unknown' }];
    const unpaid = await quotes.findUnpaid(asked.filter((quote) => quote !== undefined));
    expect(unpaid.toSorted()).toEqual([0, 2]);
  });

  it('are looked up by reading nothing else', async () => {
    const pubkey = newPubkey();
    const asked = Array.from({ length: 300 }, () => unpaidQuote(pubkey));
    for (const quote of asked) {
      await quotes.insert(quote);
    }
    await keepOpen(newPubkey(), 3_000);
    await sql`analyze`.execute(database.db);
    const cost = await costOf(database.db, (db) => new QuoteStore(db).findUnpaid(asked));
    expect(cost.rows).toBe(300);
  });

  it('are bounded where the operator allows more of them than are remembered of all others', async () => {
    const clock = new TestClock(CREATED_AT_MS);
    const noneIsPaid = {
      countOpen: () => Promise.reject(new Error('there is no bound for recipients')),
      findUnpaid: (asked: readonly unknown[]) => Promise.resolve(asked.map((_, place) => place)),
    };
    const perAddress = 100_001;
    const open = new OpenInvoices({
      quotes: noneIsPaid,
      perRecipient: 0,
      perAddress,
      clock: clock.now,
    });
    const quote = unpaidQuote(newPubkey());
    for (let invoice = 0; invoice < perAddress; invoice += 1) {
      (await open.take('a', 'first')).settle(quote);
    }
    await expect(open.take('a', 'first')).rejects.toThrow('Too many invoices');
  });

  it('are forgotten where very many others have asked since', async () => {
    const clock = new TestClock(CREATED_AT_MS);
    const open = new OpenInvoices({ quotes, perRecipient: 0, perAddress: 1, clock: clock.now });
    const quote = unpaidQuote(newPubkey());
    await quotes.insert(quote);
    (await open.take('a', 'first')).settle(quote);
    await expect(open.take('a', 'first')).rejects.toThrow('Too many invoices');
    for (let network = 0; network < 100_000; network += 1) {
      (await open.take('a', `network ${network}`)).settle(null);
    }
    await expect(open.take('a', 'first')).resolves.toBeDefined();
  });
});

/** A process of its own, and how often it asked for a count. */
function watched(clock: TestClock) {
  let asked = 0;
  const open = new OpenInvoices({
    quotes: {
      countOpen: (...args) => {
        asked += 1;
        return quotes.countOpen(...args);
      },
      findUnpaid: (keys) => quotes.findUnpaid(keys),
    },
    perRecipient: LIMIT,
    perAddress: 0,
    clock: clock.now,
  });
  return { open, asked: () => asked };
}

/** Makes invoices of a recipient, by each process in turn, and tells how many could be made. */
async function fill(processes: OpenInvoices[], pubkey: string, attempts: number): Promise<number> {
  let given = 0;
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    try {
      const place = await processes[attempt % processes.length]?.take(pubkey, 'a');
      const quote = unpaidQuote(pubkey);
      await quotes.insert(quote);
      place?.settle(quote);
      given += 1;
    } catch (error) {
      expect(error).toMatchObject({ nature: 'too_many' });
    }
  }
  return given;
}

async function keepOpen(pubkey: string, count: number): Promise<void> {
  await sql`
    insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked,
                        created_at, expires_at, next_check_at)
    select ${NOWHERE_MINT}, gen_random_uuid(), ${pubkey}, 'lnbc1', 21, 'UNPAID', false,
           ${new Date(CREATED_AT_MS)}, ${new Date(CREATED_AT_MS + HOUR)}, now()
    from generate_series(1, ${count}::int)
  `.execute(database.db);
}

function newPubkey(): string {
  return randomBytes(32).toString('hex');
}
