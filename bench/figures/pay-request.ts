import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { createPostgresDatabase } from '../harness/database.ts';
import type { BenchmarkOptions, ResultRow } from '../harness/figure.ts';
import { PUBLIC_ORIGIN, startFloor, startNutpost, startTestMint } from '../harness/servers.ts';
import { compareThroughput, type LoadRequest } from '../harness/throughput.ts';

const MIN_RATIO = 0.45;

const RECIPIENTS = 1_024;

const LNURLP_PATH = '/.well-known/lnurlp';

const FLOOR_PROGRAM = import.meta.resolve('../floors/pay-request.ts');

/** Measures the lookup of an address, by npub and by name. Floor: a bare route that returns the same bytes. */
export async function measurePayRequest(
  serverUrl: string,
  effort: BenchmarkOptions,
): Promise<ResultRow[]> {
  await using mint = await startTestMint();
  await using database = await createPostgresDatabase(serverUrl, async ({ query }) => {
    const values = [RECIPIENTS];
    await query(
      `insert into usernames (name, pubkey, status, since)
       select 'bench' || n, lpad(to_hex(n), 64, '0'), 'in_use', 0
       from generate_series(1, $1::int) as n`,
      values,
    );
    await query('insert into users (pubkey, name) select pubkey, name from usernames');
  });
  const users = {
    npub: Array.from({ length: RECIPIENTS }, () =>
      nip19.npubEncode(getPublicKey(generateSecretKey())),
    ),
    name: Array.from({ length: RECIPIENTS }, (_, i) => `bench${i + 1}`),
  };
  const rows = [];
  for (const [kind, ofKind] of Object.entries(users)) {
    const requests = ofKind.map((user) => ({
      path: `${LNURLP_PATH}/${user}`,
      expectedText: `"callback":"${PUBLIC_ORIGIN}${LNURLP_PATH}/${user}"`,
    }));
    const bodies = await readBodies(requests);
    rows.push(
      await compareThroughput(
        { title: `discovery by ${kind}`, unit: '/CPU s', minRatio: MIN_RATIO },
        async (stack) => ({
          server: stack.use(await startNutpost(mint.readyMessage.url, database)),
          requests,
        }),
        async (stack) => ({
          server: stack.use(await startFloor(FLOOR_PROGRAM, {}, bodies)),
          requests,
        }),
        effort,
      ),
    );
  }
  return rows;

  async function readBodies(requests: readonly LoadRequest[]): Promise<Record<string, string>> {
    await using service = await startNutpost(mint.readyMessage.url, database);
    const bodies: Record<string, string> = {};
    for (const { path } of requests) {
      bodies[path] = await (await fetch(`${service.readyMessage.url}${path}`)).text();
    }
    return bodies;
  }
}
