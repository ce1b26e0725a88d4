import { type Event, finalizeEvent, generateSecretKey } from 'nostr-tools';
import { compare, type Pair } from './harness/compare.ts';
import type { Figure } from './harness/figure.ts';
import { NodeProcess } from './harness/node-process.ts';
import { PUBLIC_ORIGIN, startMint, startService } from './harness/servers.ts';
import {
  measureThroughput,
  problemsOf,
  problemsOfRatio,
  type ThroughputRun,
  WARM_UP_SECONDS,
} from './harness/throughput.ts';
import type { ChecksPlan, ChecksResult } from './processes/floor-nip98.ts';

const CONNECTIONS = 64;

/** To the floor, at least. */
const RATIO = 0.7;

/** Wallets that sign in, in turn. */
const WALLETS = 256;

const PATH = '/api/v2/auth/nip98';

/** NIP-98. */
const HTTP_AUTH_KIND = 27_235;

/** One run of the floor. */
type Checks = {
  /** Right signatures in a second. */
  value: number;
  cpuPerCheckMs: number;
  wrong: number;
};

/**
 * A token for a NIP-98 event: signature, token and all that a request needs. Floor: the same check of the
 * same signatures in a loop, WebAssembly in a process of its own, with no request at all.
 */
export const nip98: Figure = {
  async measure(databases, effort) {
    await using mint = await startMint();
    await using database = await databases.create();
    const runs: Pair<ThroughputRun, Checks>[] = [];
    for (let run = 0; run < effort.runs; run += 1) {
      const ours = await measureThroughput(async (stack) => {
        const server = stack.use(await startService(mint, database));
        const plan = { connections: CONNECTIONS, requests: requests() };
        return { server, plan: { ...plan, staysAwake: false } };
      }, effort.seconds);
      const floor = await measureChecks(effort.seconds);
      runs.push({ ours, floor });
    }
    const row = compare(
      {
        title: `token for a NIP-98 event, ${CONNECTIONS} connections`,
        unit: '/s',
        toReach: { ratioAtLeast: RATIO },
        notes: [
          `CPU of the service for each answer: ${runs.map(({ ours }) => inMs(ours.cpuPerAnswerMs)).join(', ')};` +
            ` of a check: ${runs.map(({ floor }) => inMs(floor.cpuPerCheckMs)).join(', ')}`,
        ],
        problems: [
          ...runs.flatMap(({ ours, floor }) => [
            ...problemsOf('ours', ours),
            ...(floor.wrong > 0 ? [`floor: ${floor.wrong} signatures were wrong`] : []),
          ]),
          ...problemsOfRatio(runs),
        ],
      },
      runs,
    );
    return [row];
  },
};

const TOKEN = '{"error":false,"data":{"token":"ey';

/** Signed just before a run: an event is good for a minute. */
function requests() {
  return signedEvents().map((event) => {
    const encoded = Buffer.from(JSON.stringify(event)).toString('base64');
    const headers = { authorization: `Nostr ${encoded}`, 'user-agent': 'bench' };
    return { path: PATH, headers, expect: TOKEN };
  });
}

function signedEvents(): Event[] {
  const template = {
    kind: HTTP_AUTH_KIND,
    created_at: Math.floor(Date.now() / 1000),
    content: '',
    tags: [
      ['u', `${PUBLIC_ORIGIN}${PATH}`],
      ['method', 'GET'],
    ],
  };
  return Array.from({ length: WALLETS }, () => finalizeEvent({ ...template }, generateSecretKey()));
}

async function measureChecks(seconds: number): Promise<Checks> {
  const input: ChecksPlan = { events: signedEvents(), warmUpSeconds: WARM_UP_SECONDS, seconds };
  const program = import.meta.resolve('./processes/floor-nip98.ts');
  await using checker = new NodeProcess('the floor', program, { input });
  await checker.next<'warm'>(WARM_UP_SECONDS * 1000);
  const result = await checker.next<ChecksResult>(seconds * 1000);
  return {
    value: result.right / result.seconds,
    cpuPerCheckMs: result.cpuMs / result.right,
    wrong: result.wrong,
  };
}

function inMs(ms: number): string {
  return `${ms.toFixed(3)} ms`;
}
