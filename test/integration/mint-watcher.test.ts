import { beforeEach, expect, it } from 'vitest';
import type { Tx } from '../../src/database/transaction.ts';
import { createLogger } from '../../src/log.ts';
import type { Mints } from '../../src/mints/mints-module.ts';
import type { SiteSemaphore } from '../../src/net/site-semaphore.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import { USER_MINT_RECORDINGS } from '../../src/watcher/limits.ts';
import { MintWatcher } from '../../src/watcher/mint-watcher.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import { eventually } from '../helpers/eventually.ts';
import { createMintPolicy } from '../helpers/mints/mint-policy.ts';
import {
  buildUnpaidQuote,
  FIRST_PAID_AT_MS,
  insertPaidQuotes,
  randomPubkey,
} from '../helpers/recipients/quote-fixtures.ts';

const MINT_URL = 'https://operator.example';

const database = useTestDatabase();

beforeEach(async () => {
  await database.db.deleteFrom('quotes').execute();
});

it('records the other payments of a batch at once, and repeats the one that the database rejects', async () => {
  const quotes = await insertUnpaidQuotes(MINT_URL, 3);
  const [, rejected] = quotes;
  let isRejecting = true;
  const watcher = createWatcher(MINT_URL, createSlots(), (pubkeys) => {
    if (isRejecting && pubkeys.some((pubkey) => pubkey === rejected?.pubkey)) {
      throw new Error('cannot sign the receipt');
    }
  });
  await tickUntilPaid(
    watcher,
    quotes.filter((quote) => quote !== rejected),
  );
  isRejecting = false;
  await tickUntilPaid(watcher, quotes);
  await watcher.stop();
});

it('records payments at the operator’s mint while mints that users chose use all slots for recordings', async () => {
  const userMintUrl = 'https://user-mint.example';
  const slots = createSlots();
  const otherUrls = ['https://one.example', 'https://other.example'];
  expect(otherUrls.map((url) => slots.tryAcquire(url))).toEqual([true, true]);
  const ofUserMint = await insertUnpaidQuotes(userMintUrl, 1);
  const ofOperatorMint = await insertUnpaidQuotes(MINT_URL, 1);
  const userWatcher = createWatcher(userMintUrl, slots);
  const operatorWatcher = createWatcher(MINT_URL, slots);
  await eventually(() => {
    userWatcher.tick();
    userWatcher.poll();
    expect(userWatcher.health.answeredAtMs).not.toBeNull();
  });
  await tickUntilPaid(operatorWatcher, ofOperatorMint);
  slots.release('https://one.example');
  await tickUntilPaid(userWatcher, [...ofOperatorMint, ...ofUserMint]);
  await Promise.all([userWatcher.stop(), operatorWatcher.stop()]);
});

it('logs a payment of inconsistent rows until their repair, and records the others', async () => {
  const { db } = database;
  const quotes = await insertUnpaidQuotes(MINT_URL, 3);
  const { pubkey } = quotes[0] ?? expect.fail();
  // Without its user, the next payment gets the sequence number of the first one again.
  const [paid] = await insertPaidQuotes(database, pubkey, [{ paidAtMs: FIRST_PAID_AT_MS }]);
  await db.deleteFrom('users').where('pubkey', '=', pubkey).execute();
  const lines: string[] = [];
  const log = createLogger('error', { write: (line) => lines.push(line) });
  const watcher = createWatcher(MINT_URL, createSlots(), () => undefined, log);
  const others = [...quotes.slice(1), { quoteId: paid ?? expect.fail() }];
  await tickUntilPaid(watcher, others);
  await eventually(() => expect(lines).not.toEqual([]));
  const rows = db.selectFrom('quotes').select('id').where('state', '=', 'UNPAID');
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    event: 'quote_rows_inconsistent',
    mintUrl: MINT_URL,
    quotes: (await rows.execute()).map(({ id }) => id),
    err: { message: expect.stringMatching(/quotes_listed_page|quotes\.paid_seq/) },
  });
  await db.insertInto('users').values({ pubkey, paid_count: 1 }).execute();
  await watcher.stop();
  // Polls the quote at once, like the next poll of the first watcher.
  const nextWatcher = createWatcher(MINT_URL, createSlots());
  await tickUntilPaid(nextWatcher, [...others, ...quotes.slice(0, 1)]);
  await nextWatcher.stop();
});

it('logs reports of another amount each time their count has doubled', async () => {
  const quotes = await insertUnpaidQuotes(MINT_URL, 5);
  const lines: string[] = [];
  const log = createLogger('warn', { write: (line) => lines.push(line) });
  const watcher = createWatcher(MINT_URL, createSlots(), () => undefined, log);
  const amountSat = 1_000_000;
  await eventually(() => {
    watcher.tick();
    for (const { quoteId } of quotes) {
      watcher.quotes.handleNotification({ quoteId, state: 'PAID', amountSat });
    }
    const logged = lines.map((line) => JSON.parse(line));
    const common = { event: 'mint_anomaly', mintUrl: MINT_URL };
    expect(logged.slice(0, 3)).toMatchObject(
      [1, 2, 4].map((count) => ({ ...common, anomaly: 'amount_or_invoice_mismatch', count })),
    );
  });
  await watcher.stop();
});

async function insertUnpaidQuotes(mintUrl: string, count: number) {
  const quotes = Array.from({ length: count }, () => buildUnpaidQuote(randomPubkey(), { mintUrl }));
  await insertQuotes(database.db, quotes);
  return quotes;
}

const createSlots = () => createMintPolicy(MINT_URL).createSlots(USER_MINT_RECORDINGS);

function createWatcher(
  mintUrl: string,
  recordingSlots: SiteSemaphore,
  signReceipts: (pubkeys: readonly string[]) => void = () => undefined,
  log = createLogger('silent'),
): MintWatcher {
  const context = {
    mints: createFakeMints(createMintPolicy(MINT_URL)),
    db: database.db,
    recording: {
      db: database.db,
      zaps: {
        signReceipts: async (
          _tx: Tx,
          _mintUrl: string,
          payments: readonly { pubkey: string }[],
        ) => {
          signReceipts(payments.map(({ pubkey }) => pubkey));
          return { signed: [], refused: [] };
        },
        onReceiptsCreated: () => undefined,
      },
      recordNotifications: null,
      clock: Date.now,
      log,
    },
    onQuotesChanged: () => undefined,
    minPollIntervalMs: 0,
    clock: Date.now,
    monotonicMs: () => performance.now(),
    log,
  };
  return new MintWatcher(mintUrl, context, recordingSlots);
}

async function tickUntilPaid(
  watcher: MintWatcher,
  expected: readonly { quoteId: string }[],
): Promise<void> {
  await eventually(async () => {
    watcher.tick();
    const paid = database.db.selectFrom('quotes').select('quote_id').where('state', '=', 'PAID');
    const quoteIds = (await paid.execute()).map((row) => row.quote_id);
    expect(quoteIds.toSorted()).toEqual(expected.map(({ quoteId }) => quoteId).toSorted());
  });
}

/** All quotes are paid. */
function createFakeMints(policy: Mints['policy']): Mints {
  return {
    policy,
    infoCache: { getKnown: async () => null, get: async () => null },
    limiter: { hasRefusedLately: () => false },
    pollClient: {
      checkQuotes: async (_mintUrl: string, quoteIds: readonly string[]) => ({
        outcome: 'found',
        observations: quoteIds.map((quoteId) => ({ quoteId, state: 'PAID' })),
      }),
    },
  } as unknown as Mints;
}
