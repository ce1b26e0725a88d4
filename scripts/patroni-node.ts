import { readFileSync } from 'node:fs';
import { chown, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Client } from 'pg';
import { killIfRunning } from './remaining-processes.ts';
import { callOnExit, findFreePort, ServerProcess } from './server-process.ts';

export const HOST = '127.0.0.1';

/** The role and the database of the service, and the name of the cluster. */
export const SERVICE_NAME = 'nutpost';

/**
 * Patroni's timing in seconds. A standby takes over when the primary has not renewed its lease for `ttl`. Patroni's
 * defaults are 30, 10 and 10, which would make each test wait for half a minute.
 */
const TIMING = { ttl: 10, loop_wait: 1, retry_timeout: 3 };

/** A promoted standby must not lack more of the WAL than this, in bytes (asynchronous replication only). */
const MAX_LAG_ON_FAILOVER = 16 * 1024 * 1024;

const REQUEST_TIMEOUT_MS = 2_000;

export type Replication = 'synchronous' | 'asynchronous';

export interface NodeSettings {
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

/** Returns the status of a response; null if there is none in time. */
export async function requestStatus(url: string): Promise<number | null> {
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
