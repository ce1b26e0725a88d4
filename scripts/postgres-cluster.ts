import { chown, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client } from 'pg';
import { exists, installFromDistribution, run } from './machine.ts';
import { freePort, ServerProcess } from './server-process.ts';

/** The oldest PostgreSQL that the service supports. */
const MINIMUM_MAJOR = 15;

const SUPERUSER = 'nutpost';

/** Several test files and processes connect at the same time, each with its own pool. */
const MAX_CONNECTIONS = 200;

/** Durability costs time that the data of a test is not worth. */
const NOT_DURABLE = [
  '-c',
  'fsync=off',
  '-c',
  'synchronous_commit=off',
  '-c',
  'full_page_writes=off',
];

/** PostgreSQL's shutdown modes that do not wait for clients to disconnect. */
const SHUTDOWN_SIGNALS = { fast: 'SIGINT', immediate: 'SIGQUIT' } as const;

/** A private PostgreSQL server on 127.0.0.1, with everything it owns in one temporary folder. */
export interface Cluster {
  /** Connects as superuser, without a password. */
  url: string;
  /** As `show server_version` gives it. */
  version: string;
  /** Stops the server and keeps its data: `fast` like an operator's restart, `immediate` like a crash. */
  halt(how: 'fast' | 'immediate'): Promise<void>;
  /** Starts a halted server again, at the same address; resolves when it answers. */
  resume(): Promise<void>;
  /** Stops the server and deletes its folder. */
  stop(): Promise<void>;
}

/**
 * Starts a private PostgreSQL server, as the user `postgres` if this process is root. On Debian and as
 * root, a missing server is installed from the distribution.
 *
 * @param options.durable whether commits are synced; figures need it, tests do not
 * @throws if no server is found, or it does not start; the message says what to do
 */
export async function startCluster(options: { durable?: boolean } = {}): Promise<Cluster> {
  const binaries = await findOrInstallServer();
  const owner = await unprivilegedUser();
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
    await run(
      path.join(binaries, 'initdb'),
      ['-D', data, '-U', SUPERUSER, '--auth=trust', '-E', 'UTF8', '--locale=C', '--no-sync'],
      asOwner,
    );
    const host = '127.0.0.1';
    const port = await freePort(host);
    const url = `postgres://${SUPERUSER}@${host}:${port}/postgres`;
    const launch = () => {
      server = new ServerProcess(
        'PostgreSQL',
        path.join(binaries, 'postgres'),
        [
          ...['-D', data, '-h', host, '-p', String(port), '-k', folder],
          ...['-N', String(MAX_CONNECTIONS)],
          ...(options.durable === true ? [] : NOT_DURABLE),
        ],
        asOwner,
      );
      return server.firstAnswer(() => readVersion(url));
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

async function findOrInstallServer(): Promise<string> {
  let server = await findServer();
  if (server === null) {
    await installFromDistribution('postgresql');
    server = await findServer();
  }
  if (server === null) {
    throw new Error(
      `No PostgreSQL server found: install PostgreSQL ${MINIMUM_MAJOR} or later ` +
        '(on Debian: apt-get install postgresql), or put its pg_config on PATH.',
    );
  }
  return server;
}

/** Returns the folder of `initdb` and `postgres`: the one on PATH, or Debian's newest version. */
async function findServer(): Promise<string | null> {
  const configured = await run('pg_config', ['--bindir']).catch(() => null);
  const debian = '/usr/lib/postgresql';
  const versions = await readdir(debian).catch(() => []);
  const candidates = [
    ...(configured === null ? [] : [configured.stdout.trim()]),
    ...versions
      .filter((version) => Number(version) >= MINIMUM_MAJOR)
      .sort((a, b) => Number(b) - Number(a))
      .map((version) => path.join(debian, version, 'bin')),
  ];
  for (const candidate of candidates) {
    // pg_config comes with the client libraries too.
    if (await exists(path.join(candidate, 'initdb'))) {
      return candidate;
    }
  }
  return null;
}

/** Returns the user for the server, because PostgreSQL refuses root. Null if we are not root. */
async function unprivilegedUser(): Promise<{ uid: number; gid: number } | null> {
  if (process.getuid?.() !== 0) {
    return null;
  }
  for (const name of ['postgres', 'nobody']) {
    const ids = await Promise.all([run('id', ['-u', name]), run('id', ['-g', name])]).catch(
      () => null,
    );
    if (ids !== null) {
      return { uid: Number(ids[0].stdout), gid: Number(ids[1].stdout) };
    }
  }
  throw new Error('PostgreSQL refuses to run as root, and there is no user postgres or nobody.');
}

/** Returns null if the server does not answer yet. */
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
