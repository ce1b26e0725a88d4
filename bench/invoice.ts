import type { BenchDatabase, DatabaseHost } from './harness/database.ts';
import type { Figure } from './harness/figure.ts';
import { newNpub, startFloor, startMint, startService } from './harness/servers.ts';
import { compareThroughput } from './harness/throughput.ts';

const CONNECTIONS = 64;

/** Recipients asked for in turn. */
const RECIPIENTS = 1_024;

/** An invoice from a mint that answers at once. Floor: one POST to that mint and one insert. */
export const invoice: Figure = {
  name: 'invoice',
  async measure(databases, effort) {
    await using mint = await startMint();
    const plan = {
      connections: CONNECTIONS,
      requests: Array.from({ length: RECIPIENTS }, () => ({
        path: `/.well-known/lnurlp/${newNpub()}?amount=21000`,
        headers: {},
      })),
      expect: '{"pr":"lnbc210n1',
    };
    const row = await compareThroughput(
      `invoice, ${CONNECTIONS} connections`,
      {
        ours: async (stack) => {
          const database = stack.use(await emptyDatabase(databases));
          return { server: stack.use(await startService(mint, database)), plan };
        },
        floor: async (stack) => {
          const database = stack.use(await emptyDatabase(databases));
          const program = import.meta.resolve('./processes/floor-invoice.ts');
          const env = { MINT_URL: mint.url, ...database.env };
          return { server: stack.use(await startFloor(program, env)), plan };
        },
      },
      effort,
    );
    return [row];
  },
};

/** For each run its own: quotes left open by another one would be watched. */
async function emptyDatabase(databases: DatabaseHost): Promise<BenchDatabase> {
  const database = await databases.create();
  await database.prepare();
  return database;
}
