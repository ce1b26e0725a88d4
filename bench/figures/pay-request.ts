import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { createPostgresDatabase } from '../harness/database.ts';
import type { Benchmark } from '../harness/figure.ts';
import { PUBLIC_ORIGIN, startFloor, startNutpost, startTestMint } from '../harness/servers.ts';
import { compareThroughput, type LoadRequest } from '../harness/throughput.ts';

const MIN_RATIO = 0.45;

const RECIPIENT_COUNT = 1_024;

const LNURLP_PATH = '/.well-known/lnurlp';

const FLOOR_PROGRAM = import.meta.resolve('../floors/pay-request.ts');

/**
 * Measures the lookup of an address, by npub and by name. The floor is a bare route that returns the same responses.
 */
export const measurePayRequest: Benchmark = async (serverUrl, options) => {
  await using mint = await startTestMint();
  await using database = await createPostgresDatabase(serverUrl, async ({ query }) => {
    await query(
      `insert into usernames (name, pubkey, status, since)
       select 'bench' || n, lpad(to_hex(n), 64, '0'), 'in_use', 0
       from generate_series(1, $1::int) as n`,
      [RECIPIENT_COUNT],
    );
    await query('insert into users (pubkey, name) select pubkey, name from usernames');
  });
  const recipientsByKind = {
    npub: Array.from({ length: RECIPIENT_COUNT }, () =>
      nip19.npubEncode(getPublicKey(generateSecretKey())),
    ),
    name: Array.from({ length: RECIPIENT_COUNT }, (_, i) => `bench${i + 1}`),
  };
  const readResponses = async (requests: readonly LoadRequest[]) => {
    await using service = await startNutpost(mint.readyMessage.url, database);
    const responsesByPath: Record<string, string> = {};
    for (const { path } of requests) {
      responsesByPath[path] = await (await fetch(`${service.readyMessage.url}${path}`)).text();
    }
    return responsesByPath;
  };
  const rows = [];
  for (const [kind, recipients] of Object.entries(recipientsByKind)) {
    const requests = recipients.map((recipient) => ({
      path: `${LNURLP_PATH}/${recipient}`,
      expectedText: `"callback":"${PUBLIC_ORIGIN}${LNURLP_PATH}/${recipient}"`,
    }));
    const responsesByPath = await readResponses(requests);
    rows.push(
      ...(await compareThroughput(
        async (stack) => ({
          server: stack.use(await startFloor(FLOOR_PROGRAM, {}, responsesByPath)),
          requests,
        }),
        [
          {
            title: `discovery by ${kind}`,
            unit: '/CPU s',
            minRatio: MIN_RATIO,
            start: async (stack) => ({
              server: stack.use(await startNutpost(mint.readyMessage.url, database)),
              requests,
            }),
          },
        ],
        options,
      )),
    );
  }
  return rows;
};
