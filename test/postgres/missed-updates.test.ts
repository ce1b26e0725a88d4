import { sql } from 'kysely';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { openLog } from '../../src/log.ts';
import { startService } from '../../src/service.ts';
import { Store } from '../../src/store.ts';
import { openTestDatabase, serverUrl } from '../helpers/database.ts';
import { NOWHERE_MINT, recorderOn, unpaidQuote } from '../helpers/quotes.ts';
import { listeningConnections } from '../helpers/server-backends.ts';
import { TestWallet } from '../helpers/wallet.ts';
import { testConfig } from '../helpers/world.ts';

/** Notifications that another process sends while the listening connection of a process is broken. */

it('sends updates of payments that were recorded meanwhile to the sockets that stayed open', async () => {
  const { testDatabase, database: elsewhere } = await openTestDatabase();
  const url = serverUrl(testDatabase);
  const config = testConfig(NOWHERE_MINT, { DATABASE_URL: url });
  const service = await startService(config, { log: openLog('silent') });
  onTestFinished(() => service.stop());
  const wallet = new TestWallet(service.publicOrigin);
  const socket = await wallet.openSocket();
  const store = new Store(elsewhere.db);
  const quotes = Array.from({ length: 3 }, () => unpaidQuote(wallet.pubkey));
  for (const quote of quotes) {
    await store.quotes.insert([quote]);
  }

  const name = new URL(url).pathname.slice(1);
  await onServer(`alter database ${name} allow_connections false`);
  const listening = await listeningConnections(elsewhere);
  expect(listening).toHaveLength(1);
  await sql`select pg_terminate_backend(${listening[0]}::int, 10000)`.execute(elsewhere.db);
  await recorderOn(store).record(
    NOWHERE_MINT,
    quotes.map(({ quoteId }) => ({ quoteId, state: 'PAID', source: 'poll' })),
  );
  expect(await socket.drain()).toEqual([]);
  await onServer(`alter database ${name} allow_connections true`);

  for (const { quoteId } of quotes) {
    expect(await socket.next()).toEqual({ type: 'update', payload: { quoteId } });
  }
  expect(await wallet.listQuotes()).toHaveLength(quotes.length);
  await socket.close();
});

async function onServer(statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: process.env['TEST_DATABASE_URL'] });
  await client.connect();
  await client.query(statement);
  await client.end();
}
