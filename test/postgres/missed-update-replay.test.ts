import { sql } from 'kysely';
import { expect, it, onTestFinished } from 'vitest';
import { createLogger } from '../../src/log.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import { startService } from '../../src/service.ts';
import { findListenerPids } from '../helpers/database/postgres-locks.ts';
import { runStatement } from '../helpers/database/temporary-postgres-database.ts';
import { openTestDatabase, requirePostgresUrl } from '../helpers/database/test-database.ts';
import {
  buildUnpaidQuote,
  createObservationRecorder,
  UNREACHABLE_MINT_URL,
} from '../helpers/recipients/quote-fixtures.ts';
import { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { createTestConfig } from '../helpers/service/test-environment.ts';

it('sends updates for payments that were recorded while the connection for LISTEN was broken', async () => {
  const { testDatabase, database: otherProcess } = await openTestDatabase();
  const url = requirePostgresUrl(testDatabase);
  const config = createTestConfig(UNREACHABLE_MINT_URL, { DATABASE_URL: url });
  const service = await startService(config, { log: createLogger('silent') });
  onTestFinished(() => service.stop());
  const wallet = new RecipientClient(service.publicOrigin);
  const socket = await wallet.openSocket();
  const { db } = otherProcess;
  const quotes = Array.from({ length: 3 }, () => buildUnpaidQuote(wallet.pubkey));
  for (const quote of quotes) {
    await insertQuotes(db, [quote]);
  }

  // Ends the connection for LISTEN, and prevents a new one.
  const databaseName = new URL(url).pathname.slice(1);
  const serverUrl = process.env['TEST_DATABASE_URL'] ?? '';
  await runStatement(serverUrl, `alter database ${databaseName} allow_connections false`);
  const listenerPids = await findListenerPids(otherProcess);
  expect(listenerPids).toHaveLength(1);
  await sql`select pg_terminate_backend(${listenerPids[0]}::int, 10000)`.execute(otherProcess.db);
  await createObservationRecorder(db).record(
    UNREACHABLE_MINT_URL,
    quotes.map(({ quoteId }) => ({ quoteId, state: 'PAID', source: 'poll' })),
  );
  expect(await socket.drainMessages()).toEqual([]);
  await runStatement(serverUrl, `alter database ${databaseName} allow_connections true`);

  for (const { quoteId } of quotes) {
    expect(await socket.nextMessage()).toEqual({ type: 'update', payload: { quoteId } });
  }
  expect(await wallet.listPaidQuotes()).toHaveLength(quotes.length);
  await socket.close();
});
