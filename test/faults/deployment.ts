import { randomBytes, randomInt } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import { startPostgresCluster } from '../../scripts/postgres-cluster.ts';
import { isPortFree, MAX_TEST_PORT } from '../../scripts/server-process.ts';
import { type Database, openExistingDatabase } from '../../src/database/database.ts';
import { DISABLED_LIMITS_ENV } from '../helpers/service/disabled-limits.ts';
import { ServiceProcess } from './service-process.ts';
import { sleepUnlessAborted } from './storm-client.ts';

export type DatabaseKind = 'sqlite' | 'postgres';

/** These ports are above those of `findFreePort`, and below those that Linux assigns to outgoing connections. */
const MIN_PORT = MAX_TEST_PORT + 1;
const MAX_PORT = 32_767;

/** The processes of the service during a storm (a run of a fault test), and the database that they share. */
export type Deployment = Awaited<ReturnType<typeof startDeployment>>;

/**
 * Starts the service: one process on SQLite, or several processes that share a PostgreSQL database.
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
  const processNames = ['one', 'two', 'three'].slice(0, cluster === null ? 1 : processCount);
  const ports = await findStablePorts(processNames.length);
  const dataDir = path.join(folder, 'data');
  const env = {
    DEFAULT_MINT_URL: defaultMintUrl,
    ALLOW_PRIVATE_NETWORKS: 'true',
    ...DISABLED_LIMITS_ENV,
    PUBLIC_ORIGINS: ports.map((port) => `http://127.0.0.1:${port}`).join(','),
    ...(cluster === null
      ? { DATA_DIR: dataDir }
      : { DATABASE_URL: cluster.url, JWT_SECRET: randomBytes(32).toString('hex') }),
    ...options.env,
  };
  const processes: readonly ServiceProcess[] = ports.map(
    (port, index) =>
      new ServiceProcess({
        name: processNames[index] as string,
        port,
        folder,
        env,
        onUnexpectedExit,
      }),
  );
  const deployment = {
    processes,
    killCount: 0,

    /** Returns the origin of a random process that is up, or of a random process if all are down. */
    pickOrigin(random: SeededRandom): string {
      const running = processes.filter(({ isUp }) => isUp);
      return random.pick(running.length === 0 ? processes : running).origin;
    },

    async kill(target: ServiceProcess): Promise<void> {
      deployment.killCount += 1;
      await target.kill();
    },

    /** Starts a killed process after its downtime, and waits until the process is ready. */
    async restart(target: ServiceProcess, downtimeMs: number, signal: AbortSignal): Promise<void> {
      await sleepUnlessAborted(downtimeMs, signal);
      target.start();
      await target.waitUntilReady();
    },

    async withDatabase<T>(callback: (database: Database) => Promise<T>): Promise<T> {
      const openedDatabase = await openExistingDatabase(
        cluster === null ? { kind: 'sqlite', dataDir } : { kind: 'postgres', url: cluster.url },
        () => undefined,
      );
      try {
        return await callback(openedDatabase);
      } finally {
        await openedDatabase.close();
      }
    },

    async [Symbol.asyncDispose](): Promise<void> {
      await Promise.all(processes.map((serviceProcess) => serviceProcess.killPermanently()));
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
  for (const serviceProcess of processes) {
    serviceProcess.start();
  }
  await Promise.all(processes.map((serviceProcess) => serviceProcess.waitUntilReady()));
}

/** Returns free ports that stay free while a process restarts, because Linux does not assign them itself. */
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
