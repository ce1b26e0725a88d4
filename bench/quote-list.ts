import { sql } from 'kysely';
import { MAX_PAGE_SIZE } from '../src/domain/limits.ts';
import type { Database } from '../src/store/database.ts';
import type { Figure } from './harness/figure.ts';
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
    await database.prepare(addPayments);
    const plan = {
      connections: CONNECTIONS,
      requests: await Promise.all(
        Array.from({ length: USERS }, async (_, user) => ({
          path: PATH,
          headers: await walletHeaders(user),
          expect: endOfPage(),
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

/** The last payment of a page has its number as its amount; below it is how many there are. */
function endOfPage(): string {
  const last = PAYMENTS_PER_USER - MAX_PAGE_SIZE + 1;
  const metadata = `{"total":${PAYMENTS_PER_USER},"limit":${MAX_PAGE_SIZE}}`;
  return `"amount":${last},"state":"ISSUED","locked":false}]},"metadata":${metadata}}`;
}

/** Each a minute after the one before, with an invoice of usual length and its number in sats. */
async function addPayments(db: Database['db']): Promise<void> {
  await sql`
    insert into users (pubkey, paid_count, last_paid_at)
    select lpad(to_hex(user_number), 64, '0'), ${PAYMENTS_PER_USER}::bigint, now()
    from generate_series(0, ${USERS - 1}::int) as user_number`.execute(db);
  await sql`
    insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked,
                        created_at, expires_at, paid_at, paid_seq)
    select 'https://mint.example', gen_random_uuid(), pubkey,
           rpad('lnbc210n1', 300, md5(pubkey || seq)), seq, 'ISSUED', false,
           paid_at - interval '20 s', paid_at + interval '1 h', paid_at, seq
    from users
    cross join generate_series(1, ${PAYMENTS_PER_USER}::int) as seq
    cross join lateral (
      select last_paid_at - (paid_count - seq) * interval '1 min' as paid_at
    ) as payment`.execute(db);
  await sql`analyze`.execute(db);
}
