import { sql } from 'kysely';
import { beforeAll, expect, it } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import type { Db } from '../../src/database/transaction.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import { eventually } from '../helpers/eventually.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { buildUnpaidQuote } from '../helpers/recipients/quote-fixtures.ts';
import type { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { setMint, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

const BATCH_CHECK_ROUTE = 'POST /v1/mint/quote/bolt11/check';

/** At least as long as the intervals between two polls of a quote. */
const NEW_QUOTE_POLL_INTERVAL_MS = 4_000;
const PAID_QUOTE_POLL_INTERVAL_MS = 20_000;
const RESCAN_INTERVAL_MS = 15_000;

/** Short real intervals, so that only the test clock determines when the watcher polls. */
const FAST_INTERVALS = { scanIntervalMs: 5, pollIntervalMs: 0 };

const clock = new TestClock();
const environment = useTestEnvironment({
  overrides: { ...FAST_INTERVALS, clock: clock.now },
});
let db: Db;

beforeAll(() => {
  db = environment.database.db;
});

it('writes nothing to the database after a poll without state changes', async () => {
  const { mint, wallet } = await createRecipient();
  await environment.requestInvoice(wallet, 21);
  const { pr } = await environment.requestInvoice(wallet, 34);
  mint.pay(pr);
  await advanceClockUntil(NEW_QUOTE_POLL_INTERVAL_MS, async () => {
    expect(await wallet.listPaidQuotes()).toHaveLength(1);
  });
  const readQuoteRows = async () =>
    await sql`
      select quotes.*,
        (select count(*) from quote_events where quote = quotes.id and kind <> 'update_sent') as events
      from quotes where pubkey = ${wallet.pubkey} order by id`.execute(db);
  const { rows } = await readQuoteRows();
  expect(rows).toHaveLength(2);
  const batches = mint.requestCounts[BATCH_CHECK_ROUTE];
  await advanceClockUntil(PAID_QUOTE_POLL_INTERVAL_MS, () => {
    expect(mint.requestCounts[BATCH_CHECK_ROUTE]).toBeGreaterThan(batches + 5);
  });
  expect((await readQuoteRows()).rows).toEqual(rows);
});

it('finds a quote whose announcement was lost although its row id is below those that a database failover lost', async () => {
  const { mint, wallet } = await createRecipient();
  const lost = await createUnannouncedQuote(mint, wallet);
  await db
    .updateTable('quotes')
    .set({ id: 1_000_000 })
    .where('quote_id', '=', lost.quote)
    .execute();
  await advanceClockUntil(RESCAN_INTERVAL_MS, () =>
    expect(mint.requestCounts[BATCH_CHECK_ROUTE]).toBeGreaterThan(0),
  );
  await db.deleteFrom('quotes').where('quote_id', '=', lost.quote).execute();
  const { quote, request } = await createUnannouncedQuote(mint, wallet);
  mint.pay(request);
  await advanceClockUntil(RESCAN_INTERVAL_MS, async () =>
    expect(await wallet.listPaidQuotes()).toMatchObject([{ quoteId: quote }]),
  );
});

/** Creates a quote as another process does, but without its announcement. */
async function createUnannouncedQuote(mint: TestMint, { pubkey }: RecipientClient) {
  const body = JSON.stringify({ amount: 21, unit: 'sat' });
  const response = await fetch(`${mint.url}/v1/mint/quote/bolt11`, { method: 'POST', body });
  const { quote, request } = (await response.json()) as { quote: string; request: string };
  const fields = { quoteId: quote, request, mintUrl: mint.url, createdAtMs: clock.nowMs };
  await insertQuotes(db, [buildUnpaidQuote(pubkey, fields)]);
  return { quote, request };
}

async function createRecipient(): Promise<{ mint: TestMint; wallet: RecipientClient }> {
  const mint = await startTestMint({ hasWebSocket: false }, { now: clock.now });
  const wallet = environment.newWallet();
  expect((await setMint(wallet, mint.url)).status).toBe(200);
  return { mint, wallet };
}

async function advanceClockUntil(
  stepMs: number,
  assertion: () => void | Promise<void>,
): Promise<void> {
  await eventually(async () => {
    clock.advance(stepMs);
    await assertion();
  });
}
