import { copyToDataDir, createDatabase, type ServiceDatabase } from '../harness/database.ts';
import type { Effort, Row } from '../harness/figure.ts';
import { addPaidQuotes, quoteText, walletHeaders } from '../harness/paid-quotes.ts';
import { JWT_SECRET, startFloor, startService, startTestMint } from '../harness/servers.ts';
import { CONNECTIONS, compareThroughput } from '../harness/throughput.ts';

const RATIO = 0.6;

/** One user for each connection, with more payments than a page has. */
const PAID = { first: 0, users: CONNECTIONS, paymentsEach: 100 };

const FLOOR = import.meta.resolve('../floors/quote-list.ts');

/**
 * A full page of a user's paid quotes. Floor: the JWT check, one query, JSON. The floor of SQLite is the service on
 * PostgreSQL with the same rows.
 */
export async function measureQuoteList(serverUrl: string, effort: Effort): Promise<Row[]> {
  await using mint = await startTestMint();
  await using database = await createDatabase(serverUrl, (db) => addPaidQuotes(db, PAID));
  await using dataDir = await copyToDataDir(database);
  const requests = await Promise.all(
    Array.from({ length: PAID.users }, async (_, user) => ({
      path: '/api/v2/wallet/quotes',
      headers: await walletHeaders(user),
      expect: quoteText(user, PAID.paymentsEach),
    })),
  );
  const serviceOn = (db: ServiceDatabase) => async (stack: AsyncDisposableStack) => ({
    server: stack.use(await startService(mint.ready.url, db)),
    requests,
  });
  const row = await compareThroughput(
    { title: 'quote list, 50 rows, JWT', unit: '/s', ratioAtLeast: RATIO },
    serviceOn(database),
    async (stack) => {
      const env = { JWT_SECRET, DATABASE_URL: database.url };
      return { server: stack.use(await startFloor(FLOOR, env)), requests };
    },
    effort,
  );
  const sqliteRow = await compareThroughput(
    { title: 'quote list on SQLite, floor: on PostgreSQL', unit: '/s', ratioAtLeast: 1 },
    serviceOn(dataDir),
    serviceOn(database),
    effort,
  );
  return [row, sqliteRow];
}
