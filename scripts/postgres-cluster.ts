import { chown, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client } from 'pg';
import { installDebianPackages, pathExists, runProgram } from './debian-packages.ts';
import { findFreePort, ServerProcess } from './server-process.ts';

const MIN_MAJOR_VERSION = 15;

const SUPERUSER = 'nutpost';

/** Enough for several test files and service processes at the same time, each with a connection pool. */
const MAX_CONNECTIONS = 200;

/** Makes commits faster. Tests do not need data to survive a crash of the machine. */
const NON_DURABLE_OPTIONS = [
  '-c',
  'fsync=off',
  '-c',
  'synchronous_commit=off',
  '-c',
  'full_page_writes=off',
];

/** Signals for PostgreSQL's shutdown modes `fast` and `immediate`, which do not wait for clients to disconnect. */
const SHUTDOWN_SIGNALS = { fast: 'SIGINT', immediate: 'SIGQUIT' } as const;

/** A running PostgreSQL server on 127.0.0.1 with its data in a temporary folder. */
export interface PostgresCluster {
  /** Connects as superuser without a password. */
  url: string;
  /** Output of `show server_version`. */
  version: string;
  /** Stops the server but keeps its data. `fast` is a clean shutdown, and `immediate` is like a crash. */
  halt(mode: 'fast' | 'immediate'): Promise<void>;
  /** Starts a halted server at the same address again, and waits until it responds. */
  resume(): Promise<void>;
  /** Stops the server and deletes its data. */
  stop(): Promise<void>;
}

/**
 * Starts a PostgreSQL server with an empty database. If this process is root, the server runs as an unprivileged
 * user. Installs PostgreSQL if it is missing and this process runs as root on Debian.
 *
 * @param options.durable whether PostgreSQL syncs commits to disk (default: false)
 * @param options.primaryUrl if set, the server is a streaming standby of this one and contains a copy of its data
 * @throws Error if PostgreSQL is missing or does not start
 */
export async function startPostgresCluster(
  options: { durable?: boolean; primaryUrl?: string } = {},
): Promise<PostgresCluster> {
  const binFolder = await findOrInstallServerBinaries();
  const owner = await findUnprivilegedUser();
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-postgres-'));
  const dataFolder = path.join(folder, 'data');
  const processOptions = { cwd: folder, ...owner };
  let server: ServerProcess | null = null;
  const stop = async () => {
    await server?.stop(SHUTDOWN_SIGNALS.fast);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    if (owner !== null) {
      await chown(folder, owner.uid, owner.gid);
    }
    const [program, args] =
      options.primaryUrl === undefined
        ? ['initdb', ['-U', SUPERUSER, '--auth=trust', '-E', 'UTF8', '--locale=C']]
        : ['pg_basebackup', ['-d', options.primaryUrl, '-c', 'fast', '--write-recovery-conf']];
    await runProgram(
      path.join(binFolder, program),
      ['-D', dataFolder, ...args, '--no-sync'],
      processOptions,
    );
    const host = '127.0.0.1';
    const port = await findFreePort(host);
    const url = `postgres://${SUPERUSER}@${host}:${port}/postgres`;
    const startServer = () => {
      server = new ServerProcess(
        'PostgreSQL',
        path.join(binFolder, 'postgres'),
        [
          ...['-D', dataFolder, '-h', host, '-p', String(port), '-k', folder],
          ...['-N', String(MAX_CONNECTIONS)],
          ...(options.durable === true ? [] : NON_DURABLE_OPTIONS),
        ],
        processOptions,
      );
      return server.waitUntilReady(() => readVersion(url));
    };
    const version = await startServer();
    return {
      url,
      version,
      halt: async (mode) => server?.stop(SHUTDOWN_SIGNALS[mode]),
      resume: async () => {
        await startServer();
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function findOrInstallServerBinaries(): Promise<string> {
  let binFolder = await findServerBinaries();
  if (binFolder === null) {
    await installDebianPackages('postgresql');
    binFolder = await findServerBinaries();
  }
  if (binFolder === null) {
    throw new Error(
      `No PostgreSQL server found: install PostgreSQL ${MIN_MAJOR_VERSION} or later ` +
        '(on Debian: apt-get install postgresql), or put its pg_config on PATH.',
    );
  }
  return binFolder;
}

/**
 * Returns the folder of the programs `initdb` and `postgres`, or null. First looks into the folder that `pg_config`
 * prints, then into Debian's folders, newest version first.
 */
export async function findServerBinaries(): Promise<string | null> {
  const pgConfig = await runProgram('pg_config', ['--bindir']).catch(() => null);
  const debianFolder = '/usr/lib/postgresql';
  const debianVersions = await readdir(debianFolder).catch(() => []);
  const candidates = [
    ...(pgConfig === null ? [] : [pgConfig.stdout.trim()]),
    ...debianVersions
      .filter((version) => Number(version) >= MIN_MAJOR_VERSION)
      .sort((a, b) => Number(b) - Number(a))
      .map((version) => path.join(debianFolder, version, 'bin')),
  ];
  for (const candidate of candidates) {
    // `pg_config` may belong to an installation that contains only clients.
    if (await pathExists(path.join(candidate, 'initdb'))) {
      return candidate;
    }
  }
  return null;
}

/**
 * Returns the user that runs the server if this process is root, because PostgreSQL does not run as root. Otherwise
 * returns null.
 */
export async function findUnprivilegedUser(): Promise<{ uid: number; gid: number } | null> {
  if (process.getuid?.() !== 0) {
    return null;
  }
  for (const name of ['postgres', 'nobody']) {
    const ids = await Promise.all([
      runProgram('id', ['-u', name]),
      runProgram('id', ['-g', name]),
    ]).catch(() => null);
    if (ids !== null) {
      return { uid: Number(ids[0].stdout), gid: Number(ids[1].stdout) };
    }
  }
  throw new Error(
    'PostgreSQL does not run as root: create a user named postgres, or run this program as another user.',
  );
}

/** Returns null if the server does not accept connections yet. */
export async function readVersion(url: string): Promise<string | null> {
  const client = new Client({ connectionString: url });
  try {
    await client.connect();
    const { rows } = await client.query<{ server_version: string }>('show server_version');
    return rows[0]?.server_version ?? null;
  } catch {
    return null;
  } finally {
    await client.end().catch(() => {});
  }
}
