import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { installDebianPackages, pathExists } from './debian-packages.ts';
import { findUnprivilegedUser, readVersion } from './postgres-cluster.ts';
import { findFreePort, ServerProcess } from './server-process.ts';

const PROGRAM = '/usr/sbin/pgbouncer';

/** More than the connections of all test files and service processes that run at the same time. */
const MAX_CLIENT_CONNECTIONS = 2_000;

/** For each database. Several test files fit into the server's limit, and a transaction rarely waits. */
const MAX_SERVER_CONNECTIONS = 10;

/** A PgBouncer on 127.0.0.1, in front of all databases of a PostgreSQL server. */
export interface PgBouncer {
  /** Leads to the same database as the server's URL, without a password. */
  url: string;
  stop(): Promise<void>;
}

/**
 * Starts a PgBouncer. If this process is root, it runs as an unprivileged user. Installs PgBouncer if it is missing and
 * this process runs as root on Debian.
 *
 * @param serverUrl accepts its user without a password, who becomes the user of all connections
 * @throws Error if PgBouncer is missing or does not start
 */
export async function startPgBouncer(
  serverUrl: string,
  poolMode: 'session' | 'transaction' | 'statement' = 'transaction',
): Promise<PgBouncer> {
  if (!(await pathExists(PROGRAM))) {
    await installDebianPackages('pgbouncer');
  }
  const owner = await findUnprivilegedUser();
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-pgbouncer-'));
  let server: ServerProcess | null = null;
  const stop = async () => {
    // SIGTERM does not wait for clients to disconnect.
    await server?.stop('SIGTERM');
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const url = new URL(serverUrl);
    const { hostname, port: serverPort, username } = url;
    url.port = String(await findFreePort(hostname));
    const configFile = path.join(folder, 'pgbouncer.ini');
    // The last two settings are those of docs/operations/deployment.md.
    await writeFile(
      configFile,
      `[databases]
* = host=${hostname} port=${serverPort} user=${username}
[pgbouncer]
listen_addr = ${hostname}
listen_port = ${url.port}
unix_socket_dir =
auth_type = any
pool_mode = ${poolMode}
default_pool_size = ${MAX_SERVER_CONNECTIONS}
max_client_conn = ${MAX_CLIENT_CONNECTIONS}
query_wait_timeout = 3
server_login_retry = 1
`,
    );
    if (owner !== null) {
      await Promise.all([folder, configFile].map((file) => chown(file, owner.uid, owner.gid)));
    }
    server = new ServerProcess('PgBouncer', PROGRAM, [configFile], { cwd: folder, ...owner });
    await server.waitUntilReady(() => readVersion(url.href));
    return { url: url.href, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
