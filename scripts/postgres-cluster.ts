import { chown, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client } from 'pg';
import { installDebianPackages, pathExists, runProgram } from './debian-packages.ts';
import { findFreePort, ServerProcess } from './server-process.ts';

const MIN_MAJOR_VERSION = 15;

const SUPERUSER = 'nutpost';

/** Several test files and processes connect concurrently, each with a connection pool. */
const MAX_CONNECTIONS = 200;

/** Tests do not need durability, which is slow. */
const NON_DURABLE_OPTIONS = [
  '-c',
  'fsync=off',
  '-c',
  'synchronous_commit=off',
  '-c',
  'full_page_writes=off',
];

/** PostgreSQL's shutdown modes that do not wait for clients to disconnect. */
const SHUTDOWN_SIGNALS = { fast: 'SIGINT', immediate: 'SIGQUIT' } as const;

/** A private PostgreSQL server on 127.0.0.1 with its data in a temporary folder. */
export interface PostgresCluster {
  /** Connects as superuser, without a password. */
  url: string;
  /** Output of `show server_version`. */
  version: string;
  /** Stops the server but keeps its data: `fast` like a restart by an operator, `immediate` like a crash. */
  halt(how: 'fast' | 'immediate'): Promise<void>;
  /** Restarts a halted server at the same address. Resolves when it responds. */
  resume(): Promise<void>;
  /** Stops the server and deletes its folder. */
  stop(): Promise<void>;
}

/**
 * Starts a private PostgreSQL server, as an unprivileged user if this process is root. On Debian as root,
 * installs PostgreSQL if it is missing.
 *
 * @param options.durable whether commits are synced to disk; benchmarks need it, tests do not
 * @throws Error if no server is found or it does not start
 */
export async function startPostgresCluster(
  options: { durable?: boolean } = {},
): Promise<PostgresCluster> {
  const binaries = await findOrInstallServerBinaries();
  const owner = await findUnprivilegedUser();
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-postgres-'));
  const data = path.join(folder, 'data');
  const asOwner = { cwd: folder, ...owner };
  let server: ServerProcess | null = null;
  const stop = async () => {
    await server?.stop(SHUTDOWN_SIGNALS.fast);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    if (owner !== null) {
      await chown(folder, owner.uid, owner.gid);
    }
    await runProgram(
      path.join(binaries, 'initdb'),
      ['-D', data, '-U', SUPERUSER, '--auth=trust', '-E', 'UTF8', '--locale=C', '--no-sync'],
      asOwner,
    );
    const host = '127.0.0.1';
    const port = await findFreePort(host);
    const url = `postgres://${SUPERUSER}@${host}:${port}/postgres`;
    const launch = () => {
      server = new ServerProcess(
        'PostgreSQL',
        path.join(binaries, 'postgres'),
        [
          ...['-D', data, '-h', host, '-p', String(port), '-k', folder],
          ...['-N', String(MAX_CONNECTIONS)],
          ...(options.durable === true ? [] : NON_DURABLE_OPTIONS),
        ],
        asOwner,
      );
      return server.waitUntilReady(() => readVersion(url));
    };
    const version = await launch();
    return {
      url,
      version,
      halt: async (how) => server?.stop(SHUTDOWN_SIGNALS[how]),
      resume: async () => {
        await launch();
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function findOrInstallServerBinaries(): Promise<string> {
  let server = await findServerBinaries();
  if (server === null) {
    await installDebianPackages('postgresql');
    server = await findServerBinaries();
  }
  if (server === null) {
    throw new Error(
      `No PostgreSQL server found: install PostgreSQL ${MIN_MAJOR_VERSION} or later ` +
        '(on Debian: apt-get install postgresql), or put its pg_config on PATH.',
    );
  }
  return server;
}

/** Returns the folder of `initdb` and `postgres`: from `pg_config` on PATH, or Debian's newest version. */
async function findServerBinaries(): Promise<string | null> {
  const configured = await runProgram('pg_config', ['--bindir']).catch(() => null);
  const debian = '/usr/lib/postgresql';
  const versions = await readdir(debian).catch(() => []);
  const candidates = [
    ...(configured === null ? [] : [configured.stdout.trim()]),
    ...versions
      .filter((version) => Number(version) >= MIN_MAJOR_VERSION)
      .sort((a, b) => Number(b) - Number(a))
      .map((version) => path.join(debian, version, 'bin')),
  ];
  for (const candidate of candidates) {
    // pg_config may come from a client-only installation.
    if (await pathExists(path.join(candidate, 'initdb'))) {
      return candidate;
    }
  }
  return null;
}

/** Returns the user that runs the server, because PostgreSQL does not run as root. Null if not root. */
async function findUnprivilegedUser(): Promise<{ uid: number; gid: number } | null> {
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
    'PostgreSQL does not run as root: create a user named postgres, or run this as another user.',
  );
}

/** Returns null if the server does not accept connections yet. */
async function readVersion(url: string): Promise<string | null> {
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
