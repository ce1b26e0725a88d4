import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { TestMintSwitches } from '../../demo/test-mint/switches.ts';
import { TestMint } from '../../demo/test-mint.ts';
import { startPatroniCluster } from '../../scripts/patroni-cluster.ts';
import type { Replication } from '../../scripts/patroni-node.ts';
import { DISABLED_LIMITS_ENV } from '../helpers/service/disabled-limits.ts';
import { findStablePorts, ServiceProcess } from '../helpers/service/service-process.ts';
import { startFrontProxy } from './front-proxy.ts';

const PROCESS_NAMES = ['one', 'two', 'three'] as const;

/** One mint for each process, so that every process watches one. */
const MINT_KINDS: readonly Partial<TestMintSwitches>[] = [
  { issueDelayMs: 400, omitsExpiryAndPubkeyAfterCreation: true },
  { style: 'cdk' },
  { quoteIdStyle: 'base64url' },
];

const POLL_INTERVAL_MS = 50;

/** A process starts within seconds, and a failover takes ten. Both take longer on a busy machine. */
const TRANSITION_TIMEOUT_MS = 90_000;

export type FailoverDeployment = Awaited<ReturnType<typeof startFailoverDeployment>>;

/**
 * Starts three processes of the service behind a proxy. They share a cluster of two PostgreSQL servers. The last process
 * has its own proxy to the cluster. Disposing of the stack stops everything and deletes the data.
 */
export async function startFailoverDeployment(
  stack: AsyncDisposableStack,
  replication: Replication,
) {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-failover-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const mints = await Promise.all(MINT_KINDS.map((switches) => TestMint.start({ switches })));
  stack.defer(async () => {
    await Promise.all(mints.map((mint) => mint.close()));
  });
  const cluster = await startPatroniCluster({ replication });
  stack.defer(() => cluster.stop());
  const isolated = await cluster.startProxy();
  const ports = await findStablePorts(PROCESS_NAMES.length);
  const front = await startFrontProxy(ports);
  stack.defer(() => front.stop());
  const exits: string[] = [];
  const env = {
    DATABASE_URL: cluster.url,
    DEFAULT_MINT_URL: (mints[0] as TestMint).url,
    ALLOW_PRIVATE_NETWORKS: 'true',
    ...DISABLED_LIMITS_ENV,
    PUBLIC_ORIGINS: front.origin,
    TRUST_PROXY: '127.0.0.1',
    JWT_SECRET: randomBytes(32).toString('hex'),
    // Longer than the front proxy needs for its failed health checks (docs/operations/scaling-out.md).
    STOP_DELAY_SECONDS: '3',
  };
  const processes = PROCESS_NAMES.map((name, index) => {
    const isLast = index === PROCESS_NAMES.length - 1;
    const serviceProcess = new ServiceProcess({
      name,
      port: ports[index] as number,
      folder,
      env: isLast ? { ...env, DATABASE_URL: isolated.url } : env,
      onUnexpectedExit: (description) => exits.push(description),
    });
    stack.defer(() => serviceProcess.killPermanently());
    serviceProcess.start();
    return serviceProcess;
  });
  const reportedLines = new Map<string, number>();
  const waitForServers = (count: number) =>
    waitUntil(
      `${count} ready processes`,
      async () => (await front.countServers()) === count,
      () => Promise.all(processes.map(describeReadiness)),
    );
  const takeProcessProblems = async () => {
    const problems = exits.splice(0);
    for (const each of processes) {
      const lines = await each.readUnexpectedLogLines();
      const newLines = lines.slice(reportedLines.get(each.name));
      problems.push(...newLines.map((line) => `${each.name} logged: ${line}`));
      reportedLines.set(each.name, lines.length);
    }
    return problems;
  };
  const readLogs = async () =>
    (await Promise.all(processes.map(({ logFile }) => readFile(logFile, 'utf8')))).join('');
  /** Returns how many updates the processes have sent again after interruptions of their database connections. */
  const countReplayedUpdates = async () =>
    [...(await readLogs()).matchAll(/"event":"updates_replayed","updates":(\d+)/g)]
      .map(([, updates]) => Number(updates))
      .reduce((sum, updates) => sum + updates, 0);
  await waitForServers(processes.length);
  return {
    cluster,
    processes,
    isolatedProcess: processes.at(-1) as ServiceProcess,
    isolatedProxy: isolated.haproxy,
    front,
    mints,
    /** The settings of the processes, except the last one's own `DATABASE_URL`. */
    env,
    waitForServers,
    takeProcessProblems,
    readLogs,
    countReplayedUpdates,
  };
}

async function describeReadiness({ name, origin }: ServiceProcess): Promise<string> {
  const response = await fetch(`${origin}/health/ready`).catch(() => null);
  return `${name}: ${(await response?.text()) ?? 'no response'}`;
}

/** @throws Error after {@link TRANSITION_TIMEOUT_MS} */
export async function waitUntil(
  description: string,
  check: () => boolean | Promise<boolean>,
  describeState: () => Promise<unknown> = async () => null,
): Promise<void> {
  const deadlineMs = performance.now() + TRANSITION_TIMEOUT_MS;
  while (!(await check())) {
    if (performance.now() > deadlineMs) {
      const state = JSON.stringify(await describeState());
      throw new Error(`waited in vain for ${description}; state: ${state}`);
    }
    await delay(POLL_INTERVAL_MS);
  }
}
