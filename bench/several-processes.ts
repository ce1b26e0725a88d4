import { availableParallelism } from 'node:os';
import { compare } from './harness/compare.ts';
import type { BenchDatabase } from './harness/database.ts';
import type { ComparedRow, Figure, Row } from './harness/figure.ts';
import { countAskedQuotes, invoiceQuestions } from './harness/invoices.ts';
import { busyShare, machineUsage } from './harness/machine-usage.ts';
import type { NodeProcess } from './harness/node-process.ts';
import { keepRecipients } from './harness/recipients.ts';
import { percent } from './harness/report.ts';
import { type BenchServer, startService } from './harness/servers.ts';
import { median, sum } from './harness/statistics.ts';
import { TestMints } from './harness/test-mints.ts';
import { BYSTANDER_BUSY, SERVER_IDLE, startGenerator, takeTurn } from './harness/throughput.ts';
import { WatchedDatabase } from './harness/watch-database.ts';
import { type Wrongs, withUnkept, wrongsIn } from './harness/wrongs.ts';
import type { LoadPlan, LoadResult } from './processes/load-plan.ts';

/** What is compared with one process. */
const COUNTS = [2, 4] as const;

/** Each in a process of its own, as many as there are services: no mint is what is measured. */
const MINTS = 4;

/** Asked for in turn; each mint is that of as many. */
const RECIPIENTS = 1_024;

/**
 * So long, all processes together are asked for as much as they bear: each of four compiles its hot code
 * for itself. However many they are, it leaves about as many open invoices to be watched.
 */
const WARM_UP_SECONDS = 12;
const WARM_UP_CONNECTIONS = 64;

/** Until all load generators have started. */
const SETTLING_SECONDS = 1;

/** Of what so many processes would do, at least. */
const SCALE = 0.8;

/** A machine that is busier than this has no core left for another process at all times, and more cannot do more. */
const USED_UP = 0.85;

/** What is asked of all processes together. */
interface Demand {
  /** For the title. */
  name: string;
  connections: (processes: number) => number;
  mintDelayMs: number;
}

/** As much as the machine gives: it shows what an invoice costs, and scales while there are cores. */
const FULL_LOAD: Demand = { name: 'at full load', connections: () => 64, mintDelayMs: 0 };

/**
 * Twice as much of two processes as of one, and four times as much of four, each invoice waiting for its mint: what held
 * processes up then would be what they have in common, such as locks in the database. Two cores bear four processes with
 * few connections each, and two with more.
 */
const LIGHT_LOAD = demandOfEach(4);
const MEDIUM_LOAD = demandOfEach(24);

/** One run of so many processes. */
type Run = {
  /** Invoices in a second, of all processes together. */
  value: number;
  /** Of all services together, and of the connections of the database server. */
  cpuPerInvoiceMs: number;
  databaseCpuPerInvoiceMs: number;
  /** Of all cores. */
  machineBusy: number;
  /** Of a core each: the busiest of the services, the mints and the load generators. */
  serviceBusy: number;
  mintBusy: number;
  generatorBusy: number;
} & Wrongs;

type Measured = Map<number, Run>;

/** Invoices of two and of four processes on one PostgreSQL. Floor: those of one process. */
export const severalProcesses: Figure = {
  async measure(databases, effort) {
    const rows: Row[] = [];
    for (const demand of [LIGHT_LOAD, MEDIUM_LOAD, FULL_LOAD]) {
      const runs: Measured[] = [];
      for (let run = 0; run < effort.runs; run += 1) {
        const measured: Measured = new Map();
        for (const processes of [1, ...COUNTS]) {
          await using database = await databases.create();
          if (database.env['DATABASE_URL'] === undefined) {
            console.error('Several processes share a PostgreSQL server alone: left out.');
            return [];
          }
          measured.set(processes, await measureRun(processes, demand, database, effort.seconds));
        }
        runs.push(measured);
      }
      rows.push(...COUNTS.flatMap((processes) => toRows(processes, demand, runs)));
    }
    return rows;
  },
};

function demandOfEach(connections: number): Demand {
  return {
    name: `${connections} connections each, mints that take 50 ms`,
    connections: (processes) => connections * processes,
    mintDelayMs: 50,
  };
}

async function measureRun(
  processes: number,
  { connections, mintDelayMs }: Demand,
  database: BenchDatabase,
  seconds: number,
): Promise<Run> {
  await using stack = new AsyncDisposableStack();
  const mints = await startMints(stack, mintDelayMs);
  const mintUrls = mints.flatMap((each) => each.mints.map(({ url }) => url));
  const recipients = await keepRecipients(database, mintUrls, RECIPIENTS);
  const services = await startServices(stack, processes, mintUrls[0] ?? '', database);
  const questions = invoiceQuestions(recipients);
  const requests = questions.map(({ path, expect }) => ({ path, headers: {}, expect }));
  const warmUps = await warmUp(services, requests);
  const generators = services.map(({ url }) =>
    stack.use(
      startGenerator({
        ...loadOf(url, requests, connections(processes) / processes, SETTLING_SECONDS),
        seconds,
      }),
    ),
  );
  const seen = stack.use(await WatchedDatabase.open(database.env['DATABASE_URL'] ?? ''));

  await Promise.all(generators.map((generator) => generator.next<'warm'>(SETTLING_SECONDS * 1000)));
  const before = await look();
  const results = await takeTurn(generators, seconds);
  const after = await look();

  const all = [...warmUps, ...results];
  const right = sum(all.map(({ rightInAll }) => rightInAll));
  const tookMs = after.atMs - before.atMs;
  const invoices = sum(results.map((result) => result.right / result.seconds));
  const took = (which: 'services' | 'mints' | 'generators') =>
    after[which].map((cpuMs, i) => cpuMs - (before[which][i] ?? 0));
  const busiest = (cpuMs: readonly number[]) => Math.max(...cpuMs) / tookMs;
  // By the second, as the windows of several generators are not quite the same.
  const perInvoice = (cpuMs: number) => ((cpuMs / tookMs) * 1000) / invoices;
  return {
    value: invoices,
    cpuPerInvoiceMs: perInvoice(sum(took('services'))),
    databaseCpuPerInvoiceMs: perInvoice(after.databaseCpuMs - before.databaseCpuMs),
    machineBusy: busyShare(before.machine, after.machine),
    serviceBusy: busiest(took('services')),
    mintBusy: busiest(took('mints')),
    generatorBusy: busiest(took('generators')),
    ...withUnkept(wrongsIn(all), right, await countAskedQuotes(database, questions)),
  };

  async function look() {
    return {
      atMs: performance.now(),
      services: await cpuMsOf(services),
      mints: await cpuMsOf(mints),
      generators: await Promise.all(generators.map((generator) => generator.cpuMs())),
      databaseCpuMs: await seen.cpuMs(),
      machine: machineUsage(),
    };
  }
}

/** Each mint in a process of its own. */
function startMints(stack: AsyncDisposableStack, delayMs: number): Promise<TestMints[]> {
  return Promise.all(
    Array.from({ length: MINTS }, async () =>
      stack.use(await TestMints.start({ mints: 1, delayMs })),
    ),
  );
}

/** @param mintUrl of users who chose none: nobody here */
function startServices(
  stack: AsyncDisposableStack,
  processes: number,
  mintUrl: string,
  database: BenchDatabase,
): Promise<BenchServer[]> {
  return Promise.all(
    Array.from({ length: processes }, async () =>
      stack.use(await startService({ url: mintUrl }, database)),
    ),
  );
}

/** Ends when all that was asked is answered, or was not for a second, which is wrong. */
async function warmUp(
  services: readonly BenchServer[],
  requests: LoadPlan['requests'],
): Promise<LoadResult[]> {
  await using stack = new AsyncDisposableStack();
  const connections = WARM_UP_CONNECTIONS / services.length;
  const generators = services.map(({ url }) =>
    stack.use(
      startGenerator({ ...loadOf(url, requests, connections, WARM_UP_SECONDS), seconds: 0 }),
    ),
  );
  await Promise.all(generators.map((generator) => generator.next<'warm'>(WARM_UP_SECONDS * 1000)));
  return await takeTurn(generators, 0);
}

function loadOf(
  url: string,
  requests: LoadPlan['requests'],
  connections: number,
  warmUpSeconds: number,
): Omit<LoadPlan, 'seconds'> {
  return {
    url,
    connections,
    requests,
    staysAwake: false,
    warmUpSeconds,
  };
}

function cpuMsOf(started: readonly { process: NodeProcess }[]): Promise<number[]> {
  return Promise.all(started.map((each) => each.process.cpuMs()));
}

function toRows(processes: number, demand: Demand, runs: readonly Measured[]): ComparedRow[] {
  const pairs = runs.map((run) => ({ ours: of(run, processes), floor: of(run, 1) }));
  const busy = (field: 'machineBusy' | 'serviceBusy' | 'mintBusy' | 'generatorBusy') =>
    percent(median(pairs.map(({ ours }) => ours[field])));
  const databaseCpuMs = (side: 'ours' | 'floor') =>
    median(pairs.map((pair) => pair[side].databaseCpuPerInvoiceMs)).toFixed(2);
  const isUsedUp = median(pairs.map(({ ours }) => ours.machineBusy)) > USED_UP;
  const title = `invoices, ${processes} processes, ${demand.name}`;
  return [
    compare(
      {
        title,
        unit: '/s',
        toReach: isUsedUp ? null : { ratioAtLeast: SCALE * processes },
        notes: [
          `busy: ${busy('machineBusy')} of the machine's ${availableParallelism()} cores` +
            `${isUsedUp ? ', so that nothing can be asked of the rate' : ''}; of a core, the busiest ` +
            `service ${busy('serviceBusy')}, mint ${busy('mintBusy')}, load generator ${busy('generatorBusy')}`,
        ],
        problems: pairs.flatMap(({ ours, floor }) => [
          ...problemsOf(`${processes} processes`, ours),
          ...problemsOf('one process', floor),
        ]),
      },
      pairs,
    ),
    compare(
      {
        title: `${title}: CPU of an invoice`,
        unit: 'ms',
        // Cores and caches that processes take from each other are in it, which are the machine's.
        toReach: null,
        notes: [
          `PostgreSQL beside it: ${databaseCpuMs('ours')} ms, with one process ${databaseCpuMs('floor')} ms`,
        ],
        problems: [],
      },
      pairs.map(({ ours, floor }) => ({
        ours: { ...ours, value: ours.cpuPerInvoiceMs },
        floor: { ...floor, value: floor.cpuPerInvoiceMs },
      })),
    ),
  ];
}

function of(measured: Measured, processes: number): Run {
  const run = measured.get(processes);
  if (run === undefined) {
    throw new Error(`${processes} processes were measured`);
  }
  return run;
}

function problemsOf(who: string, run: Run): string[] {
  const { wrong, firstWrong, serviceBusy, mintBusy, generatorBusy } = run;
  // A mint may be what is measured as much as a load generator may.
  const bystander = Math.max(mintBusy, generatorBusy);
  return [
    ...(wrong > 0 ? [`${who}: ${wrong} wrong answers, the first: ${firstWrong}`] : []),
    ...(bystander > BYSTANDER_BUSY && serviceBusy < SERVER_IDLE
      ? [`${who}: a mint or a load generator was too busy, and may be what was measured`]
      : []),
  ];
}
