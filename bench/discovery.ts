import type { Figure } from './harness/figure.ts';
import { newNpub, PUBLIC_ORIGIN, startFloor, startMint, startService } from './harness/servers.ts';
import { compareThroughput } from './harness/throughput.ts';

const CONNECTIONS = 64;

/** Recipients asked for in turn. */
const RECIPIENTS = 1_024;

/** Discovery of an address by npub. Floor: a bare Fastify route that returns the same bytes. */
export const discovery: Figure = {
  name: 'discovery',
  async measure(databases, effort) {
    await using mint = await startMint();
    await using database = await databases.create();
    const paths = Array.from({ length: RECIPIENTS }, () => `/.well-known/lnurlp/${newNpub()}`);
    const plan = {
      connections: CONNECTIONS,
      requests: paths.map((path) => ({ path, headers: {} })),
      expect: `{"tag":"payRequest","callback":"${PUBLIC_ORIGIN}/.well-known/lnurlp/npub1`,
    };
    const answer = await oneAnswer(paths[0] ?? '');

    const row = await compareThroughput(
      `discovery by npub, ${CONNECTIONS} connections`,
      {
        ours: async (stack) => ({ server: stack.use(await startService(mint, database)), plan }),
        floor: async (stack) => {
          const program = import.meta.resolve('./processes/floor-discovery.ts');
          return { server: stack.use(await startFloor(program, { ANSWER: answer })), plan };
        },
      },
      effort,
    );
    return [row];

    async function oneAnswer(path: string): Promise<string> {
      await using service = await startService(mint, database);
      return await (await fetch(`${service.url}${path}`)).text();
    }
  },
};
