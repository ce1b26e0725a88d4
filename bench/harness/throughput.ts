import autocannon from 'autocannon';
import type { BenchmarkOptions, ResultRow } from './figure.ts';
import { readProcessUsage } from './processes.ts';
import type { Server } from './servers.ts';
import { median } from './statistics.ts';

export const CONNECTIONS = 64;

/** Lets V8 compile the hot code. */
const WARM_UP_SECONDS = 6;

/** A server under load. */
interface LoadTarget {
  server: Server;
  requests: readonly LoadRequest[];
  /** Returns a problem if the database has fewer rows than the correct responses require. */
  findMissing?: (rightResponses: number) => Promise<string | null>;
}

export interface LoadRequest {
  path: string;
  headers?: Record<string, string>;
  /** Text that only the correct response to this request contains. */
  expectedText: string;
}

/** One run of one server. */
export interface LoadResult {
  perSecond: number;
  /** Correct responses per second of the server's CPU time. */
  perCpuSecond: number;
  /** Average number of cores that the server and the load generator used. */
  serverCores: number;
  generatorCores: number;
  problems: string[];
}

/** Starts a server, which is stopped when the stack is disposed of. */
export type StartServer = (stack: AsyncDisposableStack) => Promise<LoadTarget>;

/**
 * Measures the service and its floor alternately, with a new process for every run.
 *
 * @param row.unit `/CPU s` if autocannon would limit the rate, because it needs more CPU time per request
 *   than a bare server
 */
export async function compareThroughput(
  row: { title: string; unit: '/s' | '/CPU s'; minRatio: number },
  service: StartServer,
  floor: StartServer,
  effort: BenchmarkOptions,
): Promise<ResultRow> {
  const results: Record<'service' | 'floor', LoadResult>[] = [];
  for (let run = 0; run < effort.runCount; run += 1) {
    results.push({
      service: await measureThroughput(service, effort.secondsPerRun),
      floor: await measureThroughput(floor, effort.secondsPerRun),
    });
  }
  const rateOf = (result: LoadResult) =>
    row.unit === '/s' ? result.perSecond : result.perCpuSecond;
  const all = results.flatMap((result) => [result.service, result.floor]);
  return {
    title: `${row.title}, ${CONNECTIONS} connections`,
    unit: row.unit,
    runs: results.map((result) => ({
      service: rateOf(result.service),
      floor: rateOf(result.floor),
    })),
    bound: { minRatio: row.minRatio },
    notes: [
      describeLoad(
        'nutpost',
        results.map((each) => each.service),
      ),
      describeLoad(
        'floor',
        results.map((each) => each.floor),
      ),
    ],
    problems: all.flatMap(({ problems }) => problems),
  };
}

/** Starts a server, warms it up and puts it under load. */
export async function measureThroughput(start: StartServer, seconds: number): Promise<LoadResult> {
  await using stack = new AsyncDisposableStack();
  const loaded = await start(stack);
  const warmUp = await applyLoad(loaded, WARM_UP_SECONDS);
  const before = await readProcessUsage(loaded.server);
  const generatorBefore = process.cpuUsage();
  const measured = await applyLoad(loaded, seconds);
  const generator = process.cpuUsage(generatorBefore);
  const cpuMs = (await readProcessUsage(loaded.server)).cpuMs - before.cpuMs;
  const missing = await loaded.findMissing?.(warmUp.right + measured.right);
  return {
    perSecond: measured.right / measured.seconds,
    perCpuSecond: (measured.right / cpuMs) * 1000,
    serverCores: cpuMs / 1000 / measured.seconds,
    generatorCores: (generator.user + generator.system) / 1e6 / measured.seconds,
    problems: [warmUp.problem, measured.problem, missing].filter((problem) => problem != null),
  };
}

async function applyLoad({ server, requests }: LoadTarget, seconds: number) {
  let right = 0;
  let wrong = '';
  const checked = requests.map(({ path, headers, expectedText }) => ({
    path,
    headers,
    onResponse: (status: number, body: string) => {
      if (status === 200 && body.includes(expectedText)) {
        right += 1;
      } else {
        wrong ||= `${status} ${body}`;
      }
    },
  }));
  let connection = 0;
  const result = await autocannon({
    url: server.readyMessage.url,
    connections: CONNECTIONS,
    duration: seconds,
    requests: checked.slice(0, 1),
    // Give every connection different requests. Otherwise all would send the same request at the same time.
    setupClient: (client) => {
      const own = connection;
      connection += 1;
      client.setRequests(checked.filter((_, i) => i % CONNECTIONS === own));
    },
  });
  const failed = result.errors + result.timeouts;
  const errors = failed === 0 ? '' : `${failed} connections failed`;
  const problem = wrong === '' ? errors : `wrong response: ${wrong}`;
  return { right, seconds: result.duration, problem: problem === '' ? null : problem };
}

/** Describes the load of one side, for a note. */
export function describeLoad(name: string, results: readonly LoadResult[]): string {
  const middle = (key: 'perSecond' | 'perCpuSecond' | 'serverCores' | 'generatorCores') =>
    median(results.map((result) => result[key]));
  const cpuMs = 1000 / middle('perCpuSecond');
  return (
    `${name}: ${Math.round(middle('perSecond')).toLocaleString('en')} /s; ` +
    `${cpuMs.toFixed(3)} ms of CPU time each; busy, of a core: server ` +
    `${middle('serverCores').toFixed(2)}, load generator ${middle('generatorCores').toFixed(2)}`
  );
}
