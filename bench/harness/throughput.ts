import autocannon from 'autocannon';
import type { BenchmarkOptions, ResultRow } from './figure.ts';
import { readProcessUsage } from './processes.ts';
import type { Server } from './servers.ts';
import { median } from './statistics.ts';

export const CONNECTIONS = 64;

/** A server, and the requests that put it under load. */
export interface LoadTarget {
  server: Server;
  requests: readonly LoadRequest[];
  /** Returns a problem if the database has fewer rows than the correct responses require. */
  findMissingRows?: (correctResponses: number) => Promise<string | null>;
}

export interface LoadRequest {
  path: string;
  headers?: Record<string, string>;
  /** Text that only the correct response to this request contains. */
  expectedText: string;
}

/** The result of one run of one server. */
export interface LoadResult {
  /** Correct responses per second. */
  perSecond: number;
  /** Correct responses per second of the server's CPU time. */
  perCpuSecond: number;
  /** The average number of cores that the server used. */
  serverCores: number;
  /** Resident memory of the server at the end. */
  rssMb: number;
  /** The average number of cores that the load generator, this process, used. */
  generatorCores: number;
  problems: string[];
}

/** Starts a server. Disposing of the stack stops it. */
export type StartServer = (stack: AsyncDisposableStack) => Promise<LoadTarget>;

interface ThroughputRow {
  title: string;
  /**
   * `/CPU s` counts responses per second of the server's CPU time. Use it for fast requests, for which autocannon needs
   * more CPU time than a bare server and would limit the rate.
   */
  unit: '/s' | '/CPU s';
  minRatio: number;
}

/**
 * Measures all servers in turn, with a new process for every run. Returns a row for each comparison. It compares its
 * server with the one before it, and the first one with the floor.
 */
export async function compareThroughput(
  floor: StartServer,
  comparisons: readonly (ThroughputRow & { start: StartServer })[],
  options: BenchmarkOptions,
): Promise<(ResultRow & { rssMb: number[] })[]> {
  const servers = [floor, ...comparisons.map(({ start }) => start)];
  const results = servers.map((): LoadResult[] => []);
  for (let run = 0; run < options.runCount; run += 1) {
    for (const [index, start] of servers.entries()) {
      results[index]?.push(await measureThroughput(start, options));
    }
  }
  return comparisons.map((row, index) =>
    toRow(row, results[index + 1] as LoadResult[], results[index] as LoadResult[]),
  );
}

function toRow(row: ThroughputRow, service: readonly LoadResult[], floor: readonly LoadResult[]) {
  const rateOf = (result: LoadResult | undefined) =>
    (row.unit === '/s' ? result?.perSecond : result?.perCpuSecond) ?? Number.NaN;
  return {
    title: `${row.title}, ${CONNECTIONS} connections`,
    unit: row.unit,
    runs: service.map((result, run) => ({ service: rateOf(result), floor: rateOf(floor[run]) })),
    bound: { minRatio: row.minRatio },
    rssMb: service.map(({ rssMb }) => rssMb),
    notes: [describeLoad('nutpost', service), describeLoad('floor', floor)],
    problems: [...service, ...floor].flatMap(({ problems }) => problems),
  };
}

/** Starts a server, warms it up and puts it under load. */
export async function measureThroughput(
  start: StartServer,
  { secondsPerRun, warmUpSeconds }: BenchmarkOptions,
): Promise<LoadResult> {
  await using stack = new AsyncDisposableStack();
  const target = await start(stack);
  const warmUp = await applyLoad(target, warmUpSeconds);
  const usageBefore = await readProcessUsage(target.server);
  const generatorCpuBefore = process.cpuUsage();
  const measured = await applyLoad(target, secondsPerRun);
  const generatorCpu = process.cpuUsage(generatorCpuBefore);
  const usageAfter = await readProcessUsage(target.server);
  const cpuMs = usageAfter.cpuMs - usageBefore.cpuMs;
  const missing = await target.findMissingRows?.(warmUp.correctCount + measured.correctCount);
  return {
    perSecond: measured.correctCount / measured.seconds,
    perCpuSecond: (measured.correctCount / cpuMs) * 1000,
    serverCores: cpuMs / 1000 / measured.seconds,
    rssMb: usageAfter.rssMb,
    generatorCores: (generatorCpu.user + generatorCpu.system) / 1e6 / measured.seconds,
    problems: [warmUp.problem, measured.problem, missing].filter((problem) => problem != null),
  };
}

async function applyLoad({ server, requests }: LoadTarget, seconds: number) {
  let correctCount = 0;
  let firstWrongResponse = '';
  const checkedRequests = requests.map(({ path, headers, expectedText }) => ({
    path,
    headers,
    onResponse: (status: number, body: string) => {
      if (status === 200 && body.includes(expectedText)) {
        correctCount += 1;
      } else {
        firstWrongResponse ||= `${status} ${body}`;
      }
    },
  }));
  let connectionCount = 0;
  const result = await autocannon({
    url: server.readyMessage.url,
    connections: CONNECTIONS,
    duration: seconds,
    requests: checkedRequests.slice(0, 1),
    // Gives each connection different requests, because all connections would send the same request at a time.
    setupClient: (client) => {
      const connectionIndex = connectionCount;
      connectionCount += 1;
      client.setRequests(checkedRequests.filter((_, i) => i % CONNECTIONS === connectionIndex));
    },
  });
  const failed = result.errors + result.timeouts;
  let problem: string | null = null;
  if (firstWrongResponse !== '') {
    problem = `wrong response: ${firstWrongResponse}`;
  } else if (failed > 0) {
    problem = `${failed} connections failed`;
  }
  return { correctCount, seconds: result.duration, problem };
}

/** Describes the load on the service or on its floor, for a note below the table row. */
export function describeLoad(name: string, results: readonly LoadResult[]): string {
  const medianOf = (key: 'perSecond' | 'perCpuSecond' | 'serverCores' | 'generatorCores') =>
    median(results.map((result) => result[key]));
  const cpuMs = 1000 / medianOf('perCpuSecond');
  return (
    `${name}: ${Math.round(medianOf('perSecond')).toLocaleString('en')} /s; ` +
    `${cpuMs.toFixed(3)} ms of CPU time each; busy, of a core: server ` +
    `${medianOf('serverCores').toFixed(2)}, load generator ${medianOf('generatorCores').toFixed(2)}`
  );
}
