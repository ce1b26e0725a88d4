import { sql } from 'kysely';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { createLogger } from '../../src/log.ts';
import { startService } from '../../src/service.ts';
import { Store } from '../../src/store.ts';
import { openTestDatabase, postgresUrl } from '../helpers/database.ts';
import { findListenerPids } from '../helpers/postgres-backends.ts';
import {
  buildUnpaidQuote,
  createObservationRecorder,
  UNREACHABLE_MINT_URL,
} from '../helpers/quotes.ts';
import { testConfig } from '../helpers/test-environment.ts';
import { TestWallet } from '../helpers/test-wallet.ts';

/** Another process sends notifications while this process's listening connection is broken. */

it('sends updates of payments recorded during the outage to sockets that stayed open', async () => {
  const { testDatabase, database: elsewhere } = await openTestDatabase();
  const url = postgresUrl(testDatabase);
  const config = testConfig(UNREACHABLE_MINT_URL, { DATABASE_URL: url });
  const service = await startService(config, { log: createLogger('silent') });
  onTestFinished(() => service.stop());
  const wallet = new TestWallet(service.publicOrigin);
  const socket = await wallet.openSocket();
  const store = new Store(elsewhere.db);
  const quotes = Array.from({ length: 3 }, () => buildUnpaidQuote(wallet.pubkey));
  for (const quote of quotes) {
    await store.quotes.insert([quote]);
  }

  const name = new URL(url).pathname.slice(1);
  await onServer(`alter database ${name} allow_connections false`);
  const listening = await findListenerPids(elsewhere);
  expect(listening).toHaveLength(1);
  await sql`select pg_terminate_backend(${listening[0]}::int, 10000)`.execute(elsewhere.db);
  await createObservationRecorder(store).record(
    UNREACHABLE_MINT_URL,
    quotes.map(({ quoteId }) => ({ quoteId, state: 'PAID', source: 'poll' })),
  );
  expect(await socket.drainMessages()).toEqual([]);
  await onServer(`alter database ${name} allow_connections true`);

  for (const { quoteId } of quotes) {
    expect(await socket.nextMessage()).toEqual({ type: 'update', payload: { quoteId } });
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
