import { cpus } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { request } from 'undici';
import type { PatroniCluster } from '../scripts/patroni-cluster.ts';
import type { PatroniNode } from '../scripts/patroni-node.ts';
import {
  type FrontProxies,
  type Mints,
  readProxyServers,
  type Service,
  startCluster,
  startFrontProxies,
  startLoadProcesses,
  startMints,
  startServices,
} from './cluster/installation.ts';
import type { LoadResult, PaymentOrder } from './cluster/load-process.ts';
import { type Part, readCpuTimes, readMemoryMb } from './cluster/process-usage.ts';
import {
  type ClusterReport,
  listProblems,
  mergeResults,
  renderClusterReport,
} from './cluster/report.ts';
import { seedDatabase } from './cluster/seed.ts';
import { type BenchProcess, stopProcesses } from './harness/processes.ts';
import { parseWholeNumber } from './harness/whole-number.ts';

/**
 * `npm run bench:cluster`: three services behind HAProxy on a PostgreSQL cluster with synchronous replication, with
 * many quotes, open sockets and a steady rate of payments. Prints tables of latencies, CPU, memory and WAL.
 */

const USAGE = `Usage: npm run bench:cluster -- [options]

  --quotes 10000000             quotes in the table
  --sockets 30000               open sockets of wallets
  --payments-per-second 200     one or more rates, separated by commas, which are measured in turn
  --seconds 300                 length of the load at each rate
`;

/** HAProxy has about 28,000 ports for its connections to each of the three services. */
const MAX_SOCKETS = 65_536;

/** How many further quotes are open, as a part of all quotes: about those of the last days. */
const WATCHED_SHARE = 0.01;

/** Lets V8 compile the hot code, and the database read the hot pages. Not measured. */
const WARM_UP_SECONDS = 20;

/** How long to wait until the services have finished the work after the last handshake. */
const STABILIZATION_MS = 5_000;

const MAX_SHOWN_WARNINGS = 5;

interface Options {
  quotes: number;
  sockets: number;
  /** Payments per second, which are measured in turn. */
  rates: number[];
  seconds: number;
}

interface Installation {
  cluster: PatroniCluster;
  mints: Mints;
  services: Service[];
  proxies: FrontProxies;
  loadProcesses: BenchProcess<{ controlUrl: string }>[];
}

const { promise: interrupted, reject: interrupt } = Promise.withResolvers<never>();
// A signal can arrive while no step waits for this promise.
interrupted.catch(() => undefined);
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  // npm forwards Ctrl-C as a second signal, and the data must be deleted, so every further signal is ignored.
  process.on(signal, () => {
    interrupt(new Error('interrupted; stopping all programs'));
    stopProcesses();
  });
}

try {
  const options = readOptions();
  await using stack = new AsyncDisposableStack();
  process.exitCode = await measureCluster(options, stack);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function measureCluster(options: Options, stack: AsyncDisposableStack): Promise<number> {
  const mints = await startMints(stack);
  // Not interrupted, because the cluster can only be stopped when it has started.
  const cluster = await startCluster(stack);
  await step('quotes', seed(cluster, mints, options));
  const primary = await cluster.waitUntilHealthy();
  const services = await step('start of the services', startServices(stack, cluster.url, mints));
  const proxies = await startFrontProxies(stack, services, options.sockets);
  const loadProcesses = await startLoadProcesses(stack, mints, proxies, options.sockets);
  const installation = { cluster, mints, services, proxies, loadProcesses };
  const parts = listParts(installation, primary);
  await step('sockets', Promise.all(loadProcesses.map((load) => control(load, 'open'))));
  await step('stabilization', delay(STABILIZATION_MS));
  console.log(await describeServices(installation));
  const [firstRate = 1] = options.rates;
  await step('warm-up', pay(installation, firstRate, WARM_UP_SECONDS));

  console.log(
    `\n${cpus().length} x ${cpus()[0]?.model}, Node ${process.version}; ` +
      `${options.quotes.toLocaleString('en')} quotes, ${options.sockets.toLocaleString('en')} sockets`,
  );
  let exitCode = 0;
  for (const rate of options.rates) {
    const report = await measureRate(installation, parts, rate, options.seconds);
    console.log(await describeServices(installation));
    console.log(`\n${renderClusterReport(report)}\n`);
    exitCode = listProblems(report).length === 0 ? exitCode : 1;
  }
  return exitCode;
}

async function measureRate(
  installation: Installation,
  parts: readonly Part[],
  paymentsPerSecond: number,
  plannedSeconds: number,
): Promise<ClusterReport> {
  const primary = await installation.cluster.waitUntilHealthy();
  const failuresBefore = await countProxyFailures(installation.proxies);
  // Resets the delays.
  await readEventLoopDelaysMs(installation.services);
  const walBefore = await readWal(primary);
  const cpuBefore = await readCpuTimes(parts);
  const startedAtMs = performance.now();
  const load = await step(
    `${paymentsPerSecond} payments/s`,
    pay(installation, paymentsPerSecond, plannedSeconds),
  );
  const seconds = (performance.now() - startedAtMs) / 1000;
  const cpuAfter = await readCpuTimes(parts);
  const walAfter = await readWal(primary);
  return {
    paymentsPerSecond,
    paymentCount: Math.round(paymentsPerSecond * plannedSeconds),
    seconds,
    load,
    cpuMs: new Map(
      [...cpuAfter.partsMs].map(([name, cpuMs]) => [
        name,
        cpuMs - (cpuBefore.partsMs.get(name) ?? 0),
      ]),
    ),
    machineCpuMs: cpuAfter.machineMs - cpuBefore.machineMs,
    memoryMb: await readMemoryMb(parts),
    walBytes: walAfter.bytes - walBefore.bytes,
    walPages: walAfter.pages - walBefore.pages,
    problems: await findProblems(installation, primary, failuresBefore),
  };
}

/** Waits for a step, and prints how long it took. @throws Error if a signal arrives meanwhile */
async function step<Result>(name: string, work: Promise<Result>): Promise<Result> {
  const startedAtMs = performance.now();
  console.log(`${name} ...`);
  const result = await Promise.race([work, interrupted]);
  console.log(`${name}: ${((performance.now() - startedAtMs) / 1000).toFixed(1)} s`);
  return result;
}

async function seed(
  cluster: PatroniCluster,
  { process, fleet }: Mints,
  options: Options,
): Promise<void> {
  await seedDatabase(cluster.url, {
    quoteCount: options.quotes,
    walletCount: options.sockets,
    mintUrls: process.readyMessage.mintUrls,
    watchedMintUrls: fleet.readyMessage.mintUrls,
    watchedQuoteCount: Math.round(options.quotes * WATCHED_SHARE),
  });
  const primary = await cluster.waitUntilHealthy();
  const standbys = cluster.nodes.filter((node) => node !== primary);
  const [row] = await primary.query('select pg_current_wal_lsn()::text as lsn');
  const selectIsBehind = `select pg_last_wal_replay_lsn() < '${row?.['lsn']}'::pg_lsn as behind`;
  for (const standby of standbys) {
    while ((await standby.query(selectIsBehind))[0]?.['behind'] === true) {
      await delay(1_000);
    }
  }
  // Pending writes would delay the commits during the measurement.
  for (const node of [primary, ...standbys]) {
    await node.query('checkpoint');
  }
}

function listParts(
  { cluster, mints, services, proxies, loadProcesses }: Installation,
  primary: PatroniNode,
): Part[] {
  const standby = cluster.nodes.find((node) => node !== primary) ?? primary;
  return [
    ...services.map(({ pid }, i) => ({ name: `nutpost ${i + 1}`, pids: [pid] })),
    { name: 'PostgreSQL primary', pids: [primary.readPostmasterPid() ?? 0] },
    { name: 'PostgreSQL standby', pids: [standby.readPostmasterPid() ?? 0] },
    { name: 'HAProxy in front of nutpost', pids: proxies.pids },
    { name: 'HAProxy in front of PostgreSQL', pids: [cluster.haproxyPid] },
    { name: 'Patroni, two', pids: cluster.nodes.map(({ patroniPid }) => patroniPid) },
    { name: 'etcd', pids: [cluster.etcdPid] },
    { name: 'mints', pids: [mints.process.pid, mints.fleet.pid] },
    {
      name: 'wallets and payers (load)',
      pids: [...loadProcesses.map(({ pid }) => pid), process.pid],
    },
  ];
}

async function pay(
  { loadProcesses }: Installation,
  paymentsPerSecond: number,
  seconds: number,
): Promise<LoadResult> {
  const order = { paymentsPerSecond: paymentsPerSecond / loadProcesses.length, seconds };
  const results = await Promise.all(loadProcesses.map((load) => control(load, 'pay', order)));
  return mergeResults(results as LoadResult[]);
}

async function control(
  { readyMessage: { controlUrl } }: BenchProcess<{ controlUrl: string }>,
  action: 'open' | 'pay',
  order: PaymentOrder | null = null,
): Promise<unknown> {
  const { statusCode, body } = await request(`${controlUrl}/${action}`, {
    method: 'POST',
    body: JSON.stringify(order),
    // The response comes at the end of the load.
    headersTimeout: 0,
  });
  if (statusCode !== 200) {
    throw new Error(`a load generator failed: ${await body.text()}`);
  }
  return body.json();
}

async function readWal(primary: PatroniNode): Promise<{ bytes: number; pages: number }> {
  const [row] = await primary.query(
    `select pg_current_wal_lsn() - '0/0' as bytes, wal_fpi as pages from pg_stat_wal`,
  );
  return { bytes: Number(row?.['bytes']), pages: Number(row?.['pages']) };
}

/** Returns the longest event loop delay of each service since the last call, in milliseconds. A call resets them. */
function readEventLoopDelaysMs(services: readonly Service[]): Promise<number[]> {
  return Promise.all(
    services.map(async ({ readyMessage: { metricsUrl } }) => {
      const metrics = await (await request(metricsUrl)).body.text();
      return Number(/^nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(metrics)?.[1]) * 1000;
    }),
  );
}

async function describeServices({ services, proxies }: Installation): Promise<string> {
  const delaysMs = await readEventLoopDelaysMs(services);
  const servers = await readProxyServers(proxies);
  return services
    .map((_, i) => {
      const sockets = servers
        .filter(({ backend, service }) => backend === 'sockets' && service === `nutpost${i + 1}`)
        .reduce((sum, { connections }) => sum + connections, 0);
      return `  nutpost ${i + 1}: ${sockets} sockets, longest event loop delay ${delaysMs[i]?.toFixed(0)} ms`;
    })
    .join('\n');
}

/** Returns the failures of each service that HAProxy has counted. */
async function countProxyFailures(proxies: FrontProxies): Promise<Map<string, number>> {
  const servers = Map.groupBy(await readProxyServers(proxies), ({ service }) => service);
  return new Map(
    [...servers].map(([service, entries]) => [
      service,
      entries.reduce((sum, { failures }) => sum + failures, 0),
    ]),
  );
}

/** Returns what went wrong since the last call, and the failures since `failuresBefore`. */
async function findProblems(
  { services, proxies }: Installation,
  primary: PatroniNode,
  failuresBefore: ReadonlyMap<string, number>,
): Promise<string[]> {
  const standbys = await primary.query('select sync_state from pg_stat_replication');
  return [
    ...[...(await countProxyFailures(proxies))].flatMap(([service, total]) => {
      const count = total - (failuresBefore.get(service) ?? 0);
      return count === 0 ? [] : [`HAProxy counted ${count} failures of ${service}`];
    }),
    ...(standbys.some((standby) => standby['sync_state'] === 'sync')
      ? []
      : ['the standby is not synchronous']),
    ...services.flatMap(({ warnings }, i) => {
      const newWarnings = warnings.splice(0);
      const shownWarnings = newWarnings.slice(0, MAX_SHOWN_WARNINGS);
      return shownWarnings.map((line) => `log of nutpost ${i + 1}: ${line}`);
    }),
  ];
}

function readOptions(): Options {
  try {
    const { values } = parseArgs({
      options: {
        quotes: { type: 'string', default: '10000000' },
        sockets: { type: 'string', default: '30000' },
        'payments-per-second': { type: 'string', default: '200' },
        seconds: { type: 'string', default: '300' },
      },
    });
    const sockets = parseWholeNumber('--sockets', values.sockets);
    if (sockets > MAX_SOCKETS) {
      throw new Error(`--sockets must be at most ${MAX_SOCKETS} (got '${sockets}').`);
    }
    return {
      quotes: parseWholeNumber('--quotes', values.quotes),
      sockets,
      rates: values['payments-per-second']
        .split(',')
        .map((rate) => parseWholeNumber('--payments-per-second', rate)),
      seconds: parseWholeNumber('--seconds', values.seconds),
    };
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : error}\n\n${USAGE}`);
  }
}
