import { sql } from 'kysely';
import pg from 'pg';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { startCluster } from '../../scripts/postgres-cluster.ts';
import { loadEventSigner } from '../../src/auth/event-signer.ts';
import { TestMint } from '../../src/demo/test-mint.ts';
import { openLog } from '../../src/log.ts';
import { MintConduct } from '../../src/mint/mint-conduct.ts';
import { startService } from '../../src/service.ts';
import { type Database, openDatabase } from '../../src/store/database.ts';
import type { NewQuote } from '../../src/store/quote-store.ts';
import { Store, TransactionStore } from '../../src/store/store.ts';
import { RecordObservations } from '../../src/usecases/record-observations.ts';
import { ZapReceipts } from '../../src/usecases/zap-receipts.ts';
import { createTestDatabase } from '../helpers/database.ts';
import { listeningConnections } from '../helpers/listening-connections.ts';
import { NOWHERE_MINT, unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { request, TestWallet } from '../helpers/wallet.ts';
import { testConfig } from '../helpers/world.ts';
import { TEST_ZAP_SECRET_KEY, zapInvoice, zapRequest } from '../helpers/zap-requests.ts';

/** What is told before the server has it on its disk, and what a crash in that moment may cost. */

const RECIPIENT = '1'.repeat(64);

/** How a quote, its history and its recipient's counter are left. */
const UNPAID = { state: 'UNPAID', paid_seq: null, events: 0, paid_count: null };
const FIRST_PAID = { state: 'PAID', paid_seq: 1, events: 1, paid_count: 1 };

const log = openLog('silent');

afterEach(() => {
  vi.restoreAllMocks();
});

it('an embedded database is never asked to sync later', async () => {
  const { database } = await openTestDatabase();
  const toldFirst = vi.spyOn(TransactionStore.prototype, 'notifyBeforeSync');
  await recordPaid(database, await keep(database), false);
  expect(toldFirst).not.toHaveBeenCalled();
});

it('a transaction may commit before it is on the disk, and the next one of its connection does not', async () => {
  const { database } = await openTestDatabase();
  await database.db.connection().execute(async (db) => {
    await sql`set synchronous_commit = on`.execute(db);
    await db.transaction().execute(async (tx) => {
      await new TransactionStore(tx).notify('some channel', ['news']);
      expect(await waitsForDisk(tx)).toBe('on');
    });
    await db.transaction().execute(async (tx) => {
      await new TransactionStore(tx).notifyBeforeSync('some channel', ['news']);
      expect(await waitsForDisk(tx)).toBe('off');
    });
    expect(await waitsForDisk(db)).toBe('on');
  });
});

describe('of a payment, a crash', () => {
  it('takes back all or nothing, and it can be recorded again', async () => {
    const { crash, open } = await startServer();
    const payment = await withDatabase(open, async (database) => {
      const quote = await keep(database);
      const toldFirst = vi.spyOn(TransactionStore.prototype, 'notifyBeforeSync');
      await recordPaid(database, quote);
      expect(toldFirst).toHaveBeenCalledOnce();
      await crash();
      return quote;
    });
    await withDatabase(open, async (database) => {
      expect([UNPAID, FIRST_PAID]).toContainEqual(await standingOf(database, payment));
      await recordPaid(database, payment);
      expect(await standingOf(database, payment)).toEqual(FIRST_PAID);
    });
  });

  it.each([
    ['that is a zap', (database: Database) => keep(database, zap()), FIRST_PAID],
    [
      'of a quote that was given up',
      async (database: Database) => {
        const quote = await keep(database);
        await sql`update quotes set state = 'EXPIRED', next_check_at = null`.execute(database.db);
        return quote;
      },
      FIRST_PAID,
    ],
    [
      'whose time is ahead of the clock',
      async (database: Database) => {
        await recordPaid(database, await keep(database));
        await sql`update users set last_paid_at = now() + interval '1 hour'`.execute(database.db);
        return await keep(database);
      },
      { ...FIRST_PAID, paid_seq: 2, paid_count: 2 },
    ],
  ])('takes back nothing %s', async (_kind, prepare, standing) => {
    const { crash, open } = await startServer();
    const { quote, receipt } = await withDatabase(open, async (database) => {
      const prepared = await prepare(database);
      const toldFirst = vi.spyOn(TransactionStore.prototype, 'notifyBeforeSync');
      await recordPaid(database, prepared);
      expect(toldFirst).not.toHaveBeenCalled();
      const made = await receiptOf(database, prepared);
      await crash();
      return { quote: prepared, receipt: made };
    });
    await withDatabase(open, async (database) => {
      expect(await standingOf(database, quote)).toEqual(standing);
      expect(await receiptOf(database, quote)).toBe(receipt);
    });
  });
});

describe('when a server comes back from a crash', () => {
  it('what it lost of the last moment is recorded again at once, without asking the mint', async () => {
    const { database, location } = await openTestDatabase();
    const mint = await TestMint.start();
    if (location.kind !== 'postgres') {
      throw new Error('these tests need a PostgreSQL server: run `npm run test:postgres`');
    }
    const service = await startService(testConfig(mint.url, { DATABASE_URL: location.url }), {
      log,
    });
    onTestFinished(async () => {
      await service.stop();
      await mint.close();
    });
    const wallet = new TestWallet(service.publicOrigin);
    const socket = await wallet.openSocket();
    const answer = await request(service.url, `/.well-known/lnurlp/${wallet.npub}?amount=21000`);
    mint.pay(answer.body.pr);
    expect(await socket.next()).toMatchObject({ type: 'update' });
    const [quote] = await wallet.listQuotes();

    await loseLastPayment(database, wallet.pubkey);
    expect(await wallet.listQuotes()).toEqual([]);
    for (const pid of await listeningConnections(database)) {
      await sql`select pg_terminate_backend(${pid}::int, 10000)`.execute(database.db);
    }
    expect(await socket.next()).toMatchObject({ type: 'update' });
    expect(await wallet.listQuotes()).toMatchObject([{ quoteId: quote?.['quoteId'] }]);
    await socket.close();
  });
});

async function openTestDatabase() {
  const testDatabase = await createTestDatabase();
  const database = await testDatabase.open();
  onTestFinished(async () => {
    await database.close();
    await testDatabase.drop();
  });
  return { database, location: testDatabase.location };
}

/** A server that brings to its disk what did not wait for it ten seconds later. */
async function startServer() {
  const cluster = await startCluster({ durable: true });
  onTestFinished(() => cluster.stop());
  await onServer(cluster.url, "alter system set wal_writer_delay = '10s'");
  await onServer(cluster.url, 'select pg_reload_conf()');
  return {
    crash: async () => {
      await cluster.halt('immediate');
      await cluster.resume();
    },
    open: () => openDatabase({ kind: 'postgres', url: cluster.url }, () => undefined),
  };
}

async function withDatabase<Result>(
  open: () => Promise<Database>,
  work: (database: Database) => Promise<Result>,
): Promise<Result> {
  const database = await open();
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}

async function keep({ db }: Database, given: Partial<NewQuote> = {}): Promise<NewQuote> {
  const quote = unpaidQuote(RECIPIENT, given);
  await new Store(db).quotes.insert(quote);
  return quote;
}

function zap(): Partial<NewQuote> {
  const { text } = zapRequest({ recipient: RECIPIENT, amountMsat: 21_000 });
  return { request: zapInvoice(21_000), zapRequest: text };
}

/** As a crash leaves it that comes before the payment is on the disk; the mint is asked much later. */
async function loseLastPayment({ db }: Database, pubkey: string): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await sql`
      update quotes set state = 'UNPAID', paid_at = null, paid_seq = null,
                        next_check_at = now() + interval '1 hour'
      where pubkey = ${pubkey}`.execute(tx);
    await sql`update users set paid_count = 0, last_paid_at = null where pubkey = ${pubkey}`.execute(
      tx,
    );
    await sql`delete from quote_events where pubkey = ${pubkey}`.execute(tx);
  });
}

async function recordPaid(
  { db }: Database,
  { mintUrl, quoteId }: NewQuote,
  isOnServer = true,
): Promise<void> {
  const receipts = new ZapReceipts({
    signer: await loadEventSigner(TEST_ZAP_SECRET_KEY),
    relays: [],
    allowPrivateRelays: false,
    log,
  });
  const recordObservations = new RecordObservations({
    store: new Store(db),
    conduct: new MintConduct(log),
    zaps: { receipts, onReceipts: () => undefined },
    isOnServer,
    clock: Date.now,
    log,
  });
  await recordObservations.record(mintUrl, [{ quoteId, state: 'PAID' }], 'socket', () => true);
}

async function receiptOf({ db }: Database, { quoteId }: NewQuote): Promise<string | null> {
  const row = await db
    .selectFrom('zap_receipts')
    .innerJoin('quotes', 'quotes.id', 'zap_receipts.quote')
    .select('zap_receipts.id')
    .where('quotes.mint_url', '=', NOWHERE_MINT)
    .where('quotes.quote_id', '=', quoteId)
    .executeTakeFirst();
  return row?.id ?? null;
}

async function standingOf({ db }: Database, { quoteId, pubkey }: NewQuote): Promise<unknown> {
  const { rows } = await sql`
    select state, paid_seq,
           (select count(*) from quote_events where quote = quotes.id and kind = 'state') as events,
           (select paid_count from users where pubkey = ${pubkey}) as paid_count
    from quotes where quote_id = ${quoteId}`.execute(db);
  return rows[0];
}

async function waitsForDisk(db: Database['db']): Promise<string | undefined> {
  const { rows } = await sql<{ synchronous_commit: string }>`show synchronous_commit`.execute(db);
  return rows[0]?.synchronous_commit;
}

async function onServer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(statement);
  await client.end();
}
