import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { createDatabase } from '../harness/database.ts';
import type { Effort, Row } from '../harness/figure.ts';
import { PUBLIC_ORIGIN, startFloor, startService, startTestMint } from '../harness/servers.ts';
import { compareThroughput, type LoadRequest } from '../harness/throughput.ts';

const RATIO = 0.45;

const RECIPIENTS = 1_024;

const PATH = '/.well-known/lnurlp';

const FLOOR = import.meta.resolve('../floors/discovery.ts');

/** Discovery of an address, by npub and by name. Floor: a bare route that returns the same bytes. */
export async function measureDiscovery(serverUrl: string, effort: Effort): Promise<Row[]> {
  await using mint = await startTestMint();
  await using database = await createDatabase(serverUrl, async ({ query }) => {
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
      path: `${PATH}/${user}`,
      expect: `"callback":"${PUBLIC_ORIGIN}${PATH}/${user}"`,
    }));
    const bodies = await readBodies(requests);
    rows.push(
      await compareThroughput(
        { title: `discovery by ${kind}`, unit: '/CPU s', ratioAtLeast: RATIO },
        async (stack) => ({
          server: stack.use(await startService(mint.ready.url, database)),
          requests,
        }),
        async (stack) => ({
          server: stack.use(await startFloor(FLOOR, {}, bodies)),
          requests,
        }),
        effort,
      ),
    );
  }
  return rows;

  async function readBodies(requests: readonly LoadRequest[]): Promise<Record<string, string>> {
    await using service = await startService(mint.ready.url, database);
    const bodies: Record<string, string> = {};
    for (const { path } of requests) {
      bodies[path] = await (await fetch(`${service.ready.url}${path}`)).text();
    }
    return bodies;
  }
}
