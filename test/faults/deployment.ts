import { randomBytes, randomInt } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import { startPostgresCluster } from '../../scripts/postgres-cluster.ts';
import { isPortFree, MAX_TEST_PORT } from '../../scripts/server-process.ts';
import { type Database, openExistingDatabase } from '../../src/database/database.ts';
import { NO_LIMITS } from '../helpers/no-limits.ts';
import { ServiceProcess } from './service-process.ts';
import { sleepUnlessAborted } from './storm-client.ts';

export type DatabaseKind = 'sqlite' | 'postgres';

/** Above the ports of `findFreePort`, and below Linux's default ephemeral range. */
const MIN_PORT = MAX_TEST_PORT + 1;
const MAX_PORT = 32_767;

/** The processes of the service in a storm, and the database that they share. */
export type Deployment = Awaited<ReturnType<typeof startDeployment>>;

/**
 * Starts one process on SQLite, or several processes that share a PostgreSQL database.
 *
 * @param options.folder directory for data and logs
 * @param options.processCount number of processes on PostgreSQL; default 2
 * @param options.env additional settings
 * @param options.onUnexpectedExit called when a process exits without being stopped
 */
export async function startDeployment(options: {
  database: DatabaseKind;
  folder: string;
  defaultMintUrl: string;
  processCount?: 2 | 3;
  env?: Record<string, string>;
  onUnexpectedExit: (description: string) => void;
}) {
  const { database, folder, defaultMintUrl, processCount = 2, onUnexpectedExit } = options;
  await mkdir(folder, { recursive: true });
  const cluster = database === 'postgres' ? await startPostgresCluster() : null;
  const names = ['one', 'two', 'three'].slice(0, cluster === null ? 1 : processCount);
  const ports = await findStablePorts(names.length);
  const dataDir = path.join(folder, 'data');
  const env = {
    DEFAULT_MINT_URL: defaultMintUrl,
    ALLOW_PRIVATE_NETWORKS: 'true',
    ...NO_LIMITS,
    PUBLIC_ORIGINS: ports.map((port) => `http://127.0.0.1:${port}`).join(','),
    ...(cluster === null
      ? { DATA_DIR: dataDir }
      : { DATABASE_URL: cluster.url, JWT_SECRET: randomBytes(32).toString('hex') }),
    ...options.env,
  };
  const processes: readonly ServiceProcess[] = ports.map(
    (port, index) =>
      new ServiceProcess({
        name: names[index] as string,
        port,
        folder,
        env,
        onUnexpectedExit,
      }),
  );
  const deployment = {
    processes,
    kills: 0,

    /** Returns the origin of a random process that is up, or of any process if none is up. */
    anyOrigin(random: SeededRandom): string {
      const up = processes.filter((each) => each.isUp);
      return random.pick(up.length === 0 ? processes : up).origin;
    },

    async kill(target: ServiceProcess): Promise<void> {
      deployment.kills += 1;
      await target.kill();
    },

    /** Restarts a killed process after a delay, and waits until it is ready. */
    async restart(target: ServiceProcess, downtimeMs: number, signal: AbortSignal): Promise<void> {
      await sleepUnlessAborted(downtimeMs, signal);
      target.start();
      await target.waitUntilReady();
    },

    async withDatabase<T>(use: (database: Database) => Promise<T>): Promise<T> {
      const opened = await openExistingDatabase(
        cluster === null ? { kind: 'sqlite', dataDir } : { kind: 'postgres', url: cluster.url },
        () => undefined,
      );
      try {
        return await use(opened);
      } finally {
        await opened.close();
      }
    },

    async [Symbol.asyncDispose](): Promise<void> {
      await Promise.all(processes.map((each) => each.killPermanently()));
      await cluster?.stop();
    },
  };
  try {
    await startAll(processes);
    return deployment;
  } catch (error) {
    await deployment[Symbol.asyncDispose]();
    throw error;
  }
}

async function startAll(processes: readonly ServiceProcess[]): Promise<void> {
  for (const each of processes) {
    each.start();
  }
  await Promise.all(processes.map((each) => each.waitUntilReady()));
}

/** Returns free ports that the system does not assign to other programs meanwhile. */
export async function findStablePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = randomInt(MIN_PORT, MAX_PORT);
    if (await isPortFree(port, '127.0.0.1')) {
      ports.add(port);
    }
  }
  return [...ports];
}
