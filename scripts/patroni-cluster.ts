import { chown, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { installDebianPackages, pathExists } from './debian-packages.ts';
import { HaproxyProcess } from './haproxy.ts';
import {
  HOST,
  PatroniNode,
  type Replication,
  requestStatus,
  SERVICE_NAME,
} from './patroni-node.ts';
import { findServerBinaries, findUnprivilegedUser } from './postgres-cluster.ts';
import { readProxyExample } from './reverse-proxy.ts';
import { findFreePort, ServerProcess } from './server-process.ts';

/** The Debian package of each program that the cluster needs. */
const PACKAGES = {
  '/usr/bin/patroni': 'patroni',
  '/usr/bin/etcd': 'etcd-server',
  // Patroni's client of etcd, which the package only recommends.
  '/usr/lib/python3/dist-packages/etcd': 'python3-etcd',
  '/usr/sbin/haproxy': 'haproxy',
  '/usr/lib/postgresql': 'postgresql',
};

const NODE_NAMES = ['node1', 'node2'] as const;

/** The servers in docs/proxies/haproxy-postgres.cfg. */
const EXAMPLE_SERVERS = ['10.0.0.11:5432', '10.0.0.12:5432'];

/** A failover takes about `ttl`, and a start of a node about 10 s. Both take much longer on a busy machine. */
const TRANSITION_TIMEOUT_MS = 120_000;

/** Two PostgreSQL servers that Patroni manages, with etcd and with HAProxy in front. All listen on 127.0.0.1. */
export interface PatroniCluster {
  /** The database of the service on the current primary, through HAProxy. */
  url: string;
  nodes: readonly PatroniNode[];
  haproxyPid: number;
  etcdPid: number;
  /** Makes the standby the primary in an orderly way. Resolves when Patroni has started to do so. */
  startSwitchover(): Promise<void>;
  /**
   * Waits until the standby has received everything, and freezes the process that sends the WAL to it. From then on, it
   * receives no transactions. Returns a function that undoes this.
   */
  stopReplication(): Promise<() => void>;
  /** Waits until one node is the primary and the other its standby, and returns the primary. */
  waitUntilHealthy(): Promise<PatroniNode>;
  /** Waits until a node other than the previous primary accepts writes, and returns that node. */
  waitForOtherPrimary(previous: PatroniNode): Promise<PatroniNode>;
  /** Starts another HAProxy in front of the cluster, as processes on another machine may have. */
  startProxy(): Promise<DatabaseProxy>;
  /** Kills all programs and deletes the data. */
  stop(): Promise<void>;
}

interface DatabaseProxy {
  haproxy: HaproxyProcess;
  /** The database of the service on the current primary. */
  url: string;
}

/** Installs the missing programs. Does nothing unless this process runs as root on Debian. */
export async function installPatroniCluster(): Promise<void> {
  const missing: string[] = [];
  for (const [file, name] of Object.entries(PACKAGES)) {
    if (!(await pathExists(file))) {
      missing.push(name);
    }
  }
  if (missing.length > 0) {
    await installDebianPackages(...missing);
  }
}

/**
 * Starts a cluster with an empty database for the service.
 *
 * @param options.parameters additional settings of PostgreSQL
 * @throws Error if a program is missing or does not start
 */
export async function startPatroniCluster(options: {
  replication: Replication;
  parameters?: Readonly<Record<string, string | number>>;
}): Promise<PatroniCluster> {
  const stack = new AsyncDisposableStack();
  try {
    return await startPrograms(stack, options.replication, options.parameters ?? {});
  } catch (error) {
    await stack.disposeAsync();
    throw error;
  }
}

/** @param stack stops the programs */
async function startPrograms(
  stack: AsyncDisposableStack,
  replication: Replication,
  parameters: Readonly<Record<string, string | number>>,
): Promise<PatroniCluster> {
  const owner = await findUnprivilegedUser();
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-patroni-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  if (owner !== null) {
    await chown(folder, owner.uid, owner.gid);
  }
  const etcd = await startEtcd(stack, folder, owner);
  const binFolder = await findServerBinaries();
  if (binFolder === null) {
    throw new Error('No PostgreSQL server found: install PostgreSQL 15 or later.');
  }
  const nodes: PatroniNode[] = [];
  for (const name of NODE_NAMES) {
    const node = await PatroniNode.create(name, {
      folder,
      owner,
      binFolder,
      etcdUrl: etcd.url,
      replication,
      parameters,
    });
    stack.defer(() => node.kill());
    nodes.push(node);
    node.start();
    // The first node creates the database; the second one copies it.
    await node.waitUntilRunning();
  }
  const { url, haproxy } = await startProxy(nodes, stack);
  const cluster: PatroniCluster = {
    url,
    nodes,
    haproxyPid: haproxy.pid,
    etcdPid: etcd.pid,
    ...createClusterOperations(nodes, replication),
    startProxy: () => startProxy(nodes, stack),
    stop: () => stack.disposeAsync(),
  };
  const primary = await cluster.waitUntilHealthy();
  await createServiceDatabase(primary.url);
  return cluster;
}

function createClusterOperations(nodes: readonly PatroniNode[], replication: Replication) {
  const findPrimary = async () => {
    const arePrimaries = await Promise.all(nodes.map((node) => node.isPrimary()));
    return nodes[arePrimaries.indexOf(true)] ?? null;
  };
  const standbyPath = replication === 'synchronous' ? '/synchronous' : '/replica';
  return {
    startSwitchover: async () => {
      const primary = await findPrimary();
      const standby = nodes.find((node) => node !== primary);
      if (primary === null || standby === undefined) {
        throw new Error('no node is the primary');
      }
      await primary.requestSwitchover(standby.name);
    },
    stopReplication: async () => {
      const senders = await waitFor('a standby that has received everything', async () => {
        const rows = await (await findPrimary())?.query(
          `select pid from pg_stat_replication
           where state = 'streaming' and replay_lsn >= pg_current_wal_lsn()`,
        );
        return rows === undefined || rows.length === 0 ? null : rows;
      });
      const signalSenders = (signal: NodeJS.Signals) => {
        for (const { pid } of senders) {
          process.kill(Number(pid), signal);
        }
      };
      signalSenders('SIGSTOP');
      return () => signalSenders('SIGCONT');
    },
    waitUntilHealthy: () =>
      waitFor('a primary with a standby', async () => {
        const primary = await findPrimary();
        const standbys = nodes.filter((node) => node !== primary);
        const areReady = await Promise.all(standbys.map((node) => node.responds(standbyPath)));
        return primary !== null && areReady.every(Boolean) ? primary : null;
      }),
    waitForOtherPrimary: (previous: PatroniNode) =>
      waitFor('another primary', async () => {
        const others = nodes.filter((node) => node !== previous);
        const areWritable = await Promise.all(others.map((node) => node.isWritable()));
        return others[areWritable.indexOf(true)] ?? null;
      }),
  };
}

async function startProxy(
  nodes: readonly PatroniNode[],
  stack: AsyncDisposableStack,
): Promise<DatabaseProxy> {
  const port = await findFreePort(HOST);
  const servers = nodes.map(
    (node, index) =>
      [EXAMPLE_SERVERS[index] ?? '', `${HOST}:${node.port} port ${node.apiPort}`] as const,
  );
  const config = await readProxyExample('haproxy-postgres.cfg', [
    ['bind 127.0.0.1:5000', `bind ${HOST}:${port}`],
    ...servers,
  ]);
  const haproxy = await HaproxyProcess.start(config, port);
  stack.defer(() => haproxy.stop());
  return { haproxy, url: `postgres://${SERVICE_NAME}@${HOST}:${port}/${SERVICE_NAME}` };
}

async function startEtcd(
  stack: AsyncDisposableStack,
  folder: string,
  owner: { uid: number; gid: number } | null,
): Promise<{ url: string; pid: number }> {
  const clientPort = await findFreePort(HOST);
  const peerPort = await findFreePort(HOST);
  const url = `http://${HOST}:${clientPort}`;
  const peerUrl = `http://${HOST}:${peerPort}`;
  const args = [
    ...['--data-dir', path.join(folder, 'etcd'), '--name', 'etcd'],
    ...['--listen-client-urls', url, '--advertise-client-urls', url],
    ...['--listen-peer-urls', peerUrl, '--initial-advertise-peer-urls', peerUrl],
    ...['--initial-cluster', `etcd=${peerUrl}`],
  ];
  const etcd = new ServerProcess('etcd', 'etcd', args, { cwd: folder, ...owner });
  stack.defer(() => etcd.stop('SIGTERM'));
  await etcd.waitUntilReady(async () =>
    (await requestStatus(`${url}/health`)) === 200 ? true : null,
  );
  return { url, pid: etcd.pid };
}

async function createServiceDatabase(primaryUrl: string): Promise<void> {
  const client = new Client({ connectionString: primaryUrl });
  await client.connect();
  await client.query(`create role ${SERVICE_NAME} login`);
  await client.query(`create database ${SERVICE_NAME} owner ${SERVICE_NAME} template template0`);
  await client.end();
}

const POLL_INTERVAL_MS = 50;

async function waitFor<T>(description: string, find: () => Promise<T | null>): Promise<T> {
  const deadlineMs = performance.now() + TRANSITION_TIMEOUT_MS;
  while (performance.now() < deadlineMs) {
    const result = await find();
    if (result !== null) {
      return result;
    }
    await delay(POLL_INTERVAL_MS);
  }
  throw new Error(`waited in vain for ${description}`);
}
