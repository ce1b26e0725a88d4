import { type Event, finalizeEvent, generateSecretKey } from 'nostr-tools';
import { compare, type Pair } from './harness/compare.ts';
import type { BenchDatabase } from './harness/database.ts';
import type { Figure } from './harness/figure.ts';
import { NodeProcess } from './harness/node-process.ts';
import { percent } from './harness/report.ts';
import { type BenchServer, PUBLIC_ORIGIN, startMint, startService } from './harness/servers.ts';
import { median } from './harness/statistics.ts';
import {
  LoadedServer,
  problemsOf,
  problemsOfRatio,
  type ThroughputRun,
  type TurnTaker,
  takeTurns,
  turnSecondsOf,
} from './harness/throughput.ts';
import { startOfToken, USER_AGENT } from './harness/wallets.ts';
import type { ChecksPlan, ChecksResult } from './processes/floor-nip98.ts';
import { TURN } from './processes/load-plan.ts';

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
 * A token for a NIP-98 event: signature, token and all that a request needs. Floor: the same check of such
 * signatures in a loop, WebAssembly in a process of its own, with no request at all. Both take turns.
 */
export const nip98: Figure = {
  async measure(databases, effort) {
    await using mint = await startMint();
    await using database = await databases.create();
    const runs: Pair<ThroughputRun, Checks>[] = [];
    for (let run = 0; run < effort.runs; run += 1) {
      runs.push(await measurePair(mint, database, effort.seconds));
    }
    const row = compare(
      {
        title: `token for a NIP-98 event, ${CONNECTIONS} connections`,
        unit: '/s',
        toReach: { ratioAtLeast: RATIO },
        notes: [
          `CPU of the service for each answer: ${runs.map(({ ours }) => inMs(ours.cpuPerAnswerMs)).join(', ')};` +
            ` of a check: ${runs.map(({ floor }) => inMs(floor.cpuPerCheckMs)).join(', ')}`,
          `busy, of a core: service ${busy('serverBusy')}; load generator ${busy('generatorBusy')}`,
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

    function busy(which: 'serverBusy' | 'generatorBusy'): string {
      return percent(median(runs.map(({ ours }) => ours[which])));
    }
  },
};

async function measurePair(
  mint: BenchServer,
  database: BenchDatabase,
  seconds: number,
): Promise<Pair<ThroughputRun, Checks>> {
  await using stack = new AsyncDisposableStack();
  const turnSeconds = turnSecondsOf(seconds);
  const service = stack.use(await startService(mint, database));
  const ours = await LoadedServer.start(
    async () => ({
      server: service,
      // The floor has no client, and both cores to itself: one that never sleeps would take one from ours alone.
      plan: { connections: CONNECTIONS, requests: requests(), staysAwake: false },
    }),
    stack,
    { warmUpSeconds: 0, turnSeconds },
  );
  const floor = await Checker.start(stack, turnSeconds);
  await takeTurns([ours, floor], seconds);
  return { ours: ours.run, floor: floor.run };
}

/** Signed just before a run, because an event is good for a minute, with a time that is half of one later. */
function requests() {
  return signedEvents().map((event) => {
    const encoded = Buffer.from(JSON.stringify(event)).toString('base64');
    const headers = { authorization: `Nostr ${encoded}`, 'user-agent': USER_AGENT };
    const expect = `{"error":false,"data":{"token":"${startOfToken(event.pubkey)}`;
    return { path: PATH, headers, expect };
  });
}

function signedEvents(): Event[] {
  const template = {
    kind: HTTP_AUTH_KIND,
    created_at: Math.floor(Date.now() / 1000) + 30,
    content: '',
    tags: [
      ['u', `${PUBLIC_ORIGIN}${PATH}`],
      ['method', 'GET'],
    ],
  };
  return Array.from({ length: WALLETS }, () => finalizeEvent({ ...template }, generateSecretKey()));
}

/** Checks signatures in turns, in a process of its own. */
class Checker implements TurnTaker {
  readonly #turnSeconds: number;
  readonly #process: NodeProcess;
  #seconds = 0;
  #cpuMs = 0;
  #right = 0;
  #wrong = 0;

  /** Its process goes on the stack. */
  static async start(stack: AsyncDisposableStack, turnSeconds: number): Promise<Checker> {
    const input: ChecksPlan = { events: signedEvents(), seconds: turnSeconds };
    const program = import.meta.resolve('./processes/floor-nip98.ts');
    const checker = stack.use(new NodeProcess('the floor', program, { input }));
    await checker.next<'warm'>(0);
    return new Checker(checker, turnSeconds);
  }

  private constructor(checker: NodeProcess, turnSeconds: number) {
    this.#process = checker;
    this.#turnSeconds = turnSeconds;
  }

  /** Of all turns until now. */
  get run(): Checks {
    return {
      value: this.#right / this.#seconds,
      cpuPerCheckMs: this.#cpuMs / this.#right,
      wrong: this.#wrong,
    };
  }

  async warmUp(): Promise<void> {
    await this.#turn();
  }

  async takeTurn(): Promise<void> {
    const { seconds, cpuMs, right, wrong } = await this.#turn();
    this.#seconds += seconds;
    this.#cpuMs += cpuMs;
    this.#right += right;
    this.#wrong += wrong;
  }

  #turn(): Promise<ChecksResult> {
    this.#process.tell(TURN);
    return this.#process.next<ChecksResult>(this.#turnSeconds * 1000);
  }
}

function inMs(ms: number): string {
  return `${ms.toFixed(3)} ms`;
}
