import { type Event, finalizeEvent, generateSecretKey } from 'nostr-tools';
import { createPostgresDatabase } from '../harness/database.ts';
import type { Benchmark } from '../harness/figure.ts';
import { startProcess } from '../harness/processes.ts';
import { PUBLIC_ORIGIN, startNutpost, startTestMint } from '../harness/servers.ts';
import { CONNECTIONS, describeLoad, measureThroughput } from '../harness/throughput.ts';

const MIN_RATIO = 0.6;

const WALLET_COUNT = 256;

const TOKEN_PATH = '/api/v2/auth/nip98';

/** The kind of NIP-98 events. */
const HTTP_AUTH_KIND = 27_235;

const FLOOR_PROGRAM = import.meta.resolve('../floors/signatures.ts');

/**
 * Measures how many tokens the service issues for NIP-98 events. The floor is a loop that only verifies signatures.
 */
export const measureNip98: Benchmark = async (serverUrl, options) => {
  await using mint = await startTestMint();
  await using database = await createPostgresDatabase(serverUrl);
  const results = [];
  const runs = [];
  for (let run = 0; run < options.runCount; run += 1) {
    const result = await measureThroughput(
      async (stack) => ({
        server: stack.use(await startNutpost(mint.readyMessage.url, database)),
        requests: signEvents().map((event) => ({
          path: TOKEN_PATH,
          headers: {
            authorization: `Nostr ${Buffer.from(JSON.stringify(event)).toString('base64')}`,
          },
          expectedText: '"token":"ey',
        })),
      }),
      options,
    );
    results.push(result);
    runs.push({ service: result.perCpuSecond, floor: await measureFloor(options.secondsPerRun) });
  }
  return [
    {
      title: `token for a NIP-98 event, ${CONNECTIONS} connections`,
      unit: '/CPU s',
      runs,
      bound: { minRatio: MIN_RATIO },
      notes: [describeLoad('nutpost', results)],
      problems: results.flatMap(({ problems }) => problems),
    },
  ];
};

async function measureFloor(seconds: number): Promise<number> {
  await using floor = await startProcess<{ checksPerCpuSecond: number }>(
    'the floor',
    FLOOR_PROGRAM,
    'checksPerCpuSecond',
    { input: { events: signEvents(), seconds } },
  );
  return floor.readyMessage.checksPerCpuSecond;
}

/** Signs events that are valid for the next 90 s. An event is valid for 60 s before and after its time. */
function signEvents(): Event[] {
  return Array.from({ length: WALLET_COUNT }, () =>
    finalizeEvent(
      {
        kind: HTTP_AUTH_KIND,
        created_at: Math.floor(Date.now() / 1000) + 30,
        content: '',
        tags: [
          ['u', `${PUBLIC_ORIGIN}${TOKEN_PATH}`],
          ['method', 'GET'],
        ],
      },
      generateSecretKey(),
    ),
  );
}
