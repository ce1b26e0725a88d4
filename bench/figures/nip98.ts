import { type Event, finalizeEvent, generateSecretKey } from 'nostr-tools';
import { createDatabase } from '../harness/database.ts';
import type { Effort, Row } from '../harness/figure.ts';
import { startProcess } from '../harness/processes.ts';
import { PUBLIC_ORIGIN, startService, startTestMint } from '../harness/servers.ts';
import { CONNECTIONS, describeLoad, measureThroughput } from '../harness/throughput.ts';

const RATIO = 0.6;

const WALLETS = 256;

const PATH = '/api/v2/auth/nip98';

/** NIP-98. */
const HTTP_AUTH = 27_235;

const FLOOR = import.meta.resolve('../floors/signatures.ts');

/** A token for a NIP-98 event. Floor: the check of such signatures alone, in a loop. */
export async function measureNip98(serverUrl: string, effort: Effort): Promise<Row[]> {
  await using mint = await startTestMint();
  await using database = await createDatabase(serverUrl);
  const results = [];
  const runs = [];
  for (let run = 0; run < effort.runs; run += 1) {
    const result = await measureThroughput(
      async (stack) => ({
        server: stack.use(await startService(mint.ready.url, database)),
        requests: signEvents().map((event) => ({
          path: PATH,
          headers: {
            authorization: `Nostr ${Buffer.from(JSON.stringify(event)).toString('base64')}`,
          },
          expect: '"token":"ey',
        })),
      }),
      effort.seconds,
    );
    results.push(result);
    runs.push({ nutpost: result.perCpuSecond, floor: await checkSignatures(effort.seconds) });
  }
  return [
    {
      title: `token for a NIP-98 event, ${CONNECTIONS} connections`,
      unit: '/CPU s',
      runs,
      bound: { ratioAtLeast: RATIO },
      notes: [describeLoad('nutpost', results)],
      problems: results.flatMap(({ problems }) => problems),
    },
  ];
}

async function checkSignatures(seconds: number): Promise<number> {
  await using floor = await startProcess<{ checksPerCpuSecond: number }>(
    'the floor',
    FLOOR,
    'checksPerCpuSecond',
    { input: { events: signEvents(), seconds } },
  );
  return floor.ready.checksPerCpuSecond;
}

/** An event is valid for a minute before and after its time. */
function signEvents(): Event[] {
  return Array.from({ length: WALLETS }, () =>
    finalizeEvent(
      {
        kind: HTTP_AUTH,
        created_at: Math.floor(Date.now() / 1000) + 30,
        content: '',
        tags: [
          ['u', `${PUBLIC_ORIGIN}${PATH}`],
          ['method', 'GET'],
        ],
      },
      generateSecretKey(),
    ),
  );
}
