import autocannon from 'autocannon';
import type { Effort, Row } from './figure.ts';
import { usageOf } from './processes.ts';
import type { Server } from './servers.ts';
import { median } from './statistics.ts';

export const CONNECTIONS = 64;

/** Until V8 has compiled the hot code. */
const WARM_UP_SECONDS = 6;

/** A server under load. */
interface LoadedServer {
  server: Server;
  requests: readonly LoadRequest[];
  /** Returns a problem if the right responses left too little in the database. */
  check?: (rightResponses: number) => Promise<string | null>;
}

/** A GET request. */
export interface LoadRequest {
  path: string;
  headers?: Record<string, string>;
  /** Text that the right response contains, and the responses to other requests do not. */
  expect: string;
}

/** One run of one server. */
export interface LoadResult {
  perSecond: number;
  /** Right responses for each second of the server's CPU time. */
  perCpuSecond: number;
  /** Share of a core that the server and the load generator used. */
  serverBusy: number;
  generatorBusy: number;
  problems: string[];
}

/** Starts a server; what it starts is disposed of with the stack. */
export type StartServer = (stack: AsyncDisposableStack) => Promise<LoadedServer>;

/**
 * Measures the service and its floor in turn, each started anew for every run.
 *
 * @param row.unit `/CPU s` if autocannon would limit the rate: it needs more CPU time for a request than a
 *   bare server does
 */
export async function compareThroughput(
  row: { title: string; unit: '/s' | '/CPU s'; ratioAtLeast: number },
  nutpost: StartServer,
  floor: StartServer,
  effort: Effort,
): Promise<Row> {
  const results: Record<'nutpost' | 'floor', LoadResult>[] = [];
  for (let run = 0; run < effort.runs; run += 1) {
    results.push({
      nutpost: await measureThroughput(nutpost, effort.seconds),
      floor: await measureThroughput(floor, effort.seconds),
    });
  }
  const chosen = (result: LoadResult) =>
    row.unit === '/s' ? result.perSecond : result.perCpuSecond;
  const all = results.flatMap((result) => [result.nutpost, result.floor]);
  return {
    title: `${row.title}, ${CONNECTIONS} connections`,
    unit: row.unit,
    runs: results.map((result) => ({
      nutpost: chosen(result.nutpost),
      floor: chosen(result.floor),
    })),
    bound: { ratioAtLeast: row.ratioAtLeast },
    notes: [
      describeLoad(
        'nutpost',
        results.map((each) => each.nutpost),
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
  const before = await usageOf(loaded.server);
  const generatorBefore = process.cpuUsage();
  const measured = await applyLoad(loaded, seconds);
  const generator = process.cpuUsage(generatorBefore);
  const cpuMs = (await usageOf(loaded.server)).cpuMs - before.cpuMs;
  const missing = await loaded.check?.(warmUp.right + measured.right);
  return {
    perSecond: measured.right / measured.seconds,
    perCpuSecond: (measured.right / cpuMs) * 1000,
    serverBusy: cpuMs / 1000 / measured.seconds,
    generatorBusy: (generator.user + generator.system) / 1e6 / measured.seconds,
    problems: [warmUp.problem, measured.problem, missing].filter((problem) => problem != null),
  };
}

async function applyLoad({ server, requests }: LoadedServer, seconds: number) {
  let right = 0;
  let wrong = '';
  const checked = requests.map(({ path, headers, expect }) => ({
    path,
    headers,
    onResponse: (status: number, body: string) => {
      if (status === 200 && body.includes(expect)) {
        right += 1;
      } else {
        wrong ||= `${status} ${body}`;
      }
    },
  }));
  let connection = 0;
  const result = await autocannon({
    url: server.ready.url,
    connections: CONNECTIONS,
    duration: seconds,
    requests: checked.slice(0, 1),
    // Every connection has requests of its own; otherwise all would send the same one at a time.
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
  const middle = (key: 'perSecond' | 'perCpuSecond' | 'serverBusy' | 'generatorBusy') =>
    median(results.map((result) => result[key]));
  const cpuMs = 1000 / middle('perCpuSecond');
  return (
    `${name}: ${Math.round(middle('perSecond')).toLocaleString('en')} /s; ` +
    `${cpuMs.toFixed(3)} ms of CPU time each; busy, of a core: server ` +
    `${middle('serverBusy').toFixed(2)}, load generator ${middle('generatorBusy').toFixed(2)}`
  );
}
