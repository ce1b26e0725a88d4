import { MAX_PAGE_SIZE } from '../src/domain/limits.ts';
import type { Figure } from './harness/figure.ts';
import { addPaidQuotes, paidPage } from './harness/paid-quotes.ts';
import { JWT_SECRET, startFloor, startMint, startService } from './harness/servers.ts';
import { compareThroughput } from './harness/throughput.ts';
import { walletHeaders } from './harness/wallets.ts';

const CONNECTIONS = 64;

/** To the floor, at least. */
const RATIO = 0.6;

/** One user for each connection, with more payments than one page holds. */
const USERS = CONNECTIONS;
const PAYMENTS_PER_USER = 100;

const PATH = '/api/v2/wallet/quotes';

/** A full page of a user's paid quotes. Floor: the JWT check, one raw query, JSON. */
export const quoteList: Figure = {
  async measure(databases, effort) {
    await using mint = await startMint();
    await using database = await databases.create();
    const paid = { first: 0, users: USERS, payments: PAYMENTS_PER_USER };
    await database.prepare((db) => addPaidQuotes(db, paid));
    const plan = {
      connections: CONNECTIONS,
      requests: await Promise.all(
        Array.from({ length: USERS }, async (_, user) => ({
          path: PATH,
          headers: await walletHeaders(user),
          expect: paidPage(user, PAYMENTS_PER_USER),
        })),
      ),
      staysAwake: false,
    };
    const row = await compareThroughput(
      `quote list, ${MAX_PAGE_SIZE} rows, JWT, ${CONNECTIONS} connections`,
      {
        ours: async (stack) => ({ server: stack.use(await startService(mint, database)), plan }),
        floor: async (stack) => {
          const program = import.meta.resolve('./processes/floor-quote-list.ts');
          const env = { JWT_SECRET, ...database.env };
          return { server: stack.use(await startFloor(program, env)), plan };
        },
        areIdle: true,
      },
      effort,
      { ratioAtLeast: RATIO },
    );
    return [row];
  },
};
