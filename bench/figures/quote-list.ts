import {
  copyToDataDir,
  createPostgresDatabase,
  type ServiceDatabase,
} from '../harness/database.ts';
import type { Benchmark, ResultRow } from '../harness/figure.ts';
import { addPaidQuotes, createWalletHeaders, expectedQuoteText } from '../harness/paid-quotes.ts';
import { JWT_SECRET, startFloor, startNutpost, startTestMint } from '../harness/servers.ts';
import { CONNECTIONS, compareThroughput } from '../harness/throughput.ts';

const MIN_RATIO = 0.6;

const MAX_RSS_MB = 240;

/** One user per connection, each with more payments than fit on a page. */
const PAID_USERS = { firstUser: 0, userCount: CONNECTIONS, paymentsPerUser: 100 };

const FLOOR_PROGRAM = import.meta.resolve('../floors/quote-list.ts');

/**
 * Measures a full page of paid quotes. The floor is a server that only checks the JWT, runs one query and returns
 * JSON. For the service on SQLite, the floor is the service on PostgreSQL with the same rows.
 */
export const measureQuoteList: Benchmark = async (serverUrl, options) => {
  await using mint = await startTestMint();
  await using database = await createPostgresDatabase(serverUrl, (db) =>
    addPaidQuotes(db, PAID_USERS),
  );
  await using dataDir = await copyToDataDir(database);
  const requests = await Promise.all(
    Array.from({ length: PAID_USERS.userCount }, async (_, user) => ({
      path: '/api/v2/wallet/quotes',
      headers: await createWalletHeaders(user),
      expectedText: expectedQuoteText(user, PAID_USERS.paymentsPerUser),
    })),
  );
  const startServiceOn = (used: ServiceDatabase) => async (stack: AsyncDisposableStack) => ({
    server: stack.use(await startNutpost(mint.readyMessage.url, used)),
    requests,
  });
  const rows = await compareThroughput(
    async (stack) => {
      const env = { JWT_SECRET, DATABASE_URL: database.url };
      return { server: stack.use(await startFloor(FLOOR_PROGRAM, env)), requests };
    },
    [
      {
        title: 'quote list, 50 rows, JWT',
        unit: '/s',
        minRatio: MIN_RATIO,
        start: startServiceOn(database),
      },
      {
        title: 'quote list on SQLite, floor: on PostgreSQL',
        unit: '/s',
        minRatio: 1,
        start: startServiceOn(dataDir),
      },
    ],
    options,
  );
  const memoryRow: ResultRow = {
    title: 'memory after these lists on PostgreSQL',
    unit: 'MB',
    runs: (rows[0]?.rssMb ?? []).map((service) => ({ service })),
    bound: { maxValue: MAX_RSS_MB },
  };
  return [...rows, memoryRow];
};
