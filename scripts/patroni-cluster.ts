import { readFileSync } from 'node:fs';
import { chown, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { installDebianPackages, pathExists } from './debian-packages.ts';
import { HaproxyProcess } from './haproxy.ts';
import { findServerBinaries, findUnprivilegedUser } from './postgres-cluster.ts';
import { killIfRunning } from './remaining-processes.ts';
import { readProxyExample } from './reverse-proxy.ts';
import { callOnExit, findFreePort, ServerProcess } from './server-process.ts';

/** The Debian package of each program that the cluster needs. */
const PACKAGES = {
  '/usr/bin/patroni': 'patroni',
  '/usr/bin/etcd': 'etcd-server',
  // Patroni's client of etcd, which the package only recommends.
  '/usr/lib/python3/dist-packages/etcd': 'python3-etcd',
  '/usr/sbin/haproxy': 'haproxy',
  '/usr/lib/postgresql': 'postgresql',
};

const HOST = '127.0.0.1';

const NODE_NAMES = ['node1', 'node2'] as const;

/** The servers in docs/proxies/haproxy-postgres.cfg. */
const EXAMPLE_SERVERS = ['10.0.0.11:5432', '10.0.0.12:5432'];

/** The role and the database of the service. */
const SERVICE_NAME = 'nutpost';

/**
 * Patroni's timing in seconds. A standby takes over when the primary has not renewed its lease for `ttl`. Patroni's
 * defaults are 30, 10 and 10, which would make each test wait for half a minute.
 */
const TIMING = { ttl: 10, loop_wait: 1, retry_timeout: 3 };

/** A promoted standby must not lack more of the WAL than this, in bytes (asynchronous replication only). */
const MAX_LAG_ON_FAILOVER = 16 * 1024 * 1024;

/** A failover takes about `ttl`, and a start of a node about 10 s. Both take much longer on a busy machine. */
const TRANSITION_TIMEOUT_MS = 120_000;

const REQUEST_TIMEOUT_MS = 2_000;

export type Replication = 'synchronous' | 'asynchronous';

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
  /** Waits until a node other than this one accepts writes, and returns that node. */
  waitForOtherPrimary(than: PatroniNode): Promise<PatroniNode>;
  /** Starts another HAProxy in front of the cluster, as processes on another machine may have. */
  startProxy(): Promise<DatabaseProxy>;
  /** Kills all programs and deletes the data. */
  stop(): Promise<void>;
}

export interface DatabaseProxy {
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
    return await startOn(stack, options.replication, options.parameters ?? {});
  } catch (error) {
    await stack.disposeAsync();
    throw error;
  }
}

async function startOn(
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
    const roles = await Promise.all(nodes.map((node) => node.isPrimary()));
    return nodes[roles.indexOf(true)] ?? null;
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
    waitForOtherPrimary: (than: PatroniNode) =>
      waitFor('another primary', async () => {
        const others = nodes.filter((node) => node !== than);
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
  const [clientPort, peerPort] = [await findFreePort(HOST), await findFreePort(HOST)];
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

interface NodeSettings {
  folder: string;
  owner: { uid: number; gid: number } | null;
  binFolder: string;
  etcdUrl: string;
  replication: Replication;
  parameters: Readonly<Record<string, string | number>>;
}

/** A PostgreSQL server and the Patroni process that manages it. */
export class PatroniNode {
  readonly name: string;
  /** The database `postgres` of this server, as superuser and past HAProxy. */
  readonly url: string;
  readonly apiUrl: string;
  readonly port: number;
  readonly apiPort: number;
  readonly #configFile: string;
  readonly #dataFolder: string;
  readonly #folder: string;
  readonly #owner: { uid: number; gid: number } | null;
  #patroni: ServerProcess | null = null;
  #stopKillingOnExit: () => void = () => undefined;

  private constructor(name: string, ports: readonly [number, number], settings: NodeSettings) {
    this.name = name;
    [this.port, this.apiPort] = ports;
    this.url = `postgres://postgres@${HOST}:${this.port}/postgres`;
    this.apiUrl = `http://${HOST}:${this.apiPort}`;
    this.#folder = path.join(settings.folder, name);
    this.#configFile = path.join(this.#folder, 'patroni.yml');
    this.#dataFolder = path.join(this.#folder, 'data');
    this.#owner = settings.owner;
  }

  static async create(name: string, settings: NodeSettings): Promise<PatroniNode> {
    const ports = [await findFreePort(HOST), await findFreePort(HOST)] as const;
    const node = new PatroniNode(name, ports, settings);
    await mkdir(node.#folder);
    await writeFile(node.#configFile, JSON.stringify(node.#createConfig(settings)));
    if (settings.owner !== null) {
      await chown(node.#folder, settings.owner.uid, settings.owner.gid);
    }
    return node;
  }

  /** Starts Patroni, which starts PostgreSQL. */
  start(): void {
    this.#stopKillingOnExit = callOnExit(this.#killPostgres);
    this.#patroni = new ServerProcess(
      `Patroni of ${this.name}`,
      'patroni',
      [this.#configFile],
      // Patroni's log directory defaults to the home directory.
      { cwd: this.#folder, env: { PATH: process.env['PATH'], HOME: this.#folder }, ...this.#owner },
    );
  }

  /** Waits until PostgreSQL accepts queries. */
  async waitUntilRunning(): Promise<void> {
    await this.#patroni?.waitUntilReady(async () =>
      (await this.responds('/health')) ? true : null,
    );
  }

  /** Whether Patroni's REST API returns 200, which is what HAProxy checks. */
  async responds(apiPath: string): Promise<boolean> {
    return (await requestStatus(`${this.apiUrl}${apiPath}`)) === 200;
  }

  isPrimary(): Promise<boolean> {
    return this.responds('/primary');
  }

  /** Whether the server itself accepts writes, whatever Patroni says. */
  async isWritable(): Promise<boolean> {
    const rows = await this.query('show transaction_read_only').catch(() => []);
    return rows[0]?.['transaction_read_only'] === 'off';
  }

  /** Runs a statement as superuser, in the database `postgres` or another one. */
  async query(statement: string, database = 'postgres'): Promise<Record<string, unknown>[]> {
    const url = new URL(this.url);
    url.pathname = `/${database}`;
    const client = new Client({
      connectionString: url.href,
      connectionTimeoutMillis: REQUEST_TIMEOUT_MS,
    });
    client.on('error', () => undefined);
    try {
      await client.connect();
      return (await client.query<Record<string, unknown>>(statement)).rows;
    } finally {
      await client.end().catch(() => undefined);
    }
  }

  async requestSwitchover(candidate: string): Promise<void> {
    const response = await fetch(`${this.apiUrl}/switchover`, {
      method: 'POST',
      body: JSON.stringify({ leader: this.name, candidate }),
    });
    if (!response.ok) {
      throw new Error(`Patroni refused the switchover: ${await response.text()}`);
    }
  }

  /** @throws Error if Patroni has not been started */
  get patroniPid(): number {
    if (this.#patroni === null) {
      throw new Error(`Patroni of ${this.name} has not been started`);
    }
    return this.#patroni.pid;
  }

  /** Kills Patroni and PostgreSQL with SIGKILL, as if the machine had lost its power. */
  async kill(): Promise<void> {
    // Patroni first, because it would start PostgreSQL again.
    await this.#patroni?.stop('SIGKILL');
    this.#stopKillingOnExit();
    this.#killPostgres();
  }

  /** Patroni starts PostgreSQL in a process group of its own, which therefore does not end with Patroni. */
  readonly #killPostgres = () => {
    const postmaster = this.readPostmasterPid();
    if (postmaster !== null) {
      for (const pid of [postmaster, ...listChildren(postmaster)]) {
        killIfRunning(pid);
      }
    }
  };

  /** Returns PostgreSQL's main process; null if it is not running. A killed server leaves its file behind. */
  readPostmasterPid(): number | null {
    try {
      const [pid] = readFileSync(`${this.#dataFolder}/postmaster.pid`, 'utf8').split('\n');
      const isPostgres = readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(this.#dataFolder);
      return isPostgres ? Number(pid) : null;
    } catch {
      return null;
    }
  }

  #createConfig({ binFolder, etcdUrl, replication, parameters }: NodeSettings): unknown {
    return {
      scope: SERVICE_NAME,
      name: this.name,
      restapi: { listen: `${HOST}:${this.apiPort}`, connect_address: `${HOST}:${this.apiPort}` },
      etcd3: { host: etcdUrl.replace('http://', '') },
      bootstrap: {
        dcs: {
          ...TIMING,
          maximum_lag_on_failover: MAX_LAG_ON_FAILOVER,
          synchronous_mode: replication === 'synchronous',
          postgresql: { use_pg_rewind: true, parameters },
        },
        initdb: [{ encoding: 'UTF8' }, { locale: 'C' }, 'data-checksums', 'no-sync'],
      },
      postgresql: {
        listen: `${HOST}:${this.port}`,
        connect_address: `${HOST}:${this.port}`,
        data_dir: this.#dataFolder,
        bin_dir: binFolder,
        pgpass: path.join(this.#folder, 'pgpass'),
        authentication: {
          superuser: { username: 'postgres' },
          replication: { username: 'replicator' },
        },
        pg_hba: [
          'local all all trust',
          `host all all ${HOST}/32 trust`,
          `host replication all ${HOST}/32 trust`,
        ],
        parameters: { unix_socket_directories: this.#folder },
      },
    };
  }
}

async function createServiceDatabase(primaryUrl: string): Promise<void> {
  const client = new Client({ connectionString: primaryUrl });
  await client.connect();
  await client.query(`create role ${SERVICE_NAME} login`);
  await client.query(`create database ${SERVICE_NAME} owner ${SERVICE_NAME} template template0`);
  await client.end();
}

/** Returns the status of a response; null if there is none in time. */
async function requestStatus(url: string): Promise<number | null> {
  const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
  try {
    const response = await fetch(url, { signal });
    await response.arrayBuffer();
    return response.status;
  } catch {
    return null;
  }
}

function listChildren(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
    return children.trim().split(' ').filter(Boolean).map(Number);
  } catch {
    return [];
  }
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
