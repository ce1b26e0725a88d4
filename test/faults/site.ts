import { randomBytes, randomInt } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { Dice } from '../../demo/test-mint/dice.ts';
import { startCluster } from '../../scripts/postgres-cluster.ts';
import { isFree, LAST_FREE_PORT } from '../../scripts/server-process.ts';
import { type Database, openExistingDatabase } from '../../src/database/database.ts';
import { NO_LIMITS } from '../helpers/no-limits.ts';
import { pause } from './client.ts';
import { ServiceProcess } from './service-process.ts';

export type DatabaseKind = 'sqlite' | 'postgres';

/** Above the ports of `freePort`, and below those that systems give to outgoing connections. */
const LOWEST_PORT = LAST_FREE_PORT + 1;
const HIGHEST_PORT = 32_767;

/** The service as it is installed in a storm: its processes, and the database that they share. */
export type Site = Awaited<ReturnType<typeof openSite>>;

/**
 * Starts one process on SQLite, or several that share one on PostgreSQL.
 *
 * @param options.sharing how many; default two
 * @param options.folder holds everything of the site
 * @param options.env settings besides the required ones
 * @param options.onDeath called when a process exits on its own
 */
export async function openSite(options: {
  database: DatabaseKind;
  folder: string;
  defaultMintUrl: string;
  sharing?: 2 | 3;
  env?: Record<string, string>;
  onDeath: (description: string) => void;
}) {
  const { database, folder, defaultMintUrl, sharing = 2, onDeath } = options;
  await mkdir(folder, { recursive: true });
  const cluster = database === 'postgres' ? await startCluster() : null;
  const names = ['one', 'two', 'three'].slice(0, cluster === null ? 1 : sharing);
  const ports = await lastingPorts(names.length);
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
      new ServiceProcess({ name: names[index] as string, port, folder, env, onDeath }),
  );
  const site = {
    processes,
    kills: 0,

    /** Returns the origin of a process that is up, or of any process if none is. */
    anyOrigin(dice: Dice): string {
      const up = processes.filter((each) => each.isUp);
      return dice.pick(up.length === 0 ? processes : up).origin;
    },

    async kill(victim: ServiceProcess): Promise<void> {
      site.kills += 1;
      await victim.kill();
    },

    /** Starts a killed process again after this time, and waits until it is ready. */
    async restart(victim: ServiceProcess, absenceMs: number, signal: AbortSignal): Promise<void> {
      await pause(absenceMs, signal);
      victim.start();
      await victim.ready();
    },

    async withDatabase<T>(work: (database: Database) => Promise<T>): Promise<T> {
      const opened = await openExistingDatabase(
        cluster === null ? { kind: 'sqlite', dataDir } : { kind: 'postgres', url: cluster.url },
        () => undefined,
      );
      try {
        return await work(opened);
      } finally {
        await opened.close();
      }
    },

    async [Symbol.asyncDispose](): Promise<void> {
      await Promise.all(processes.map((each) => each.retire()));
      await cluster?.stop();
    },
  };
  try {
    await startAll(processes);
    return site;
  } catch (error) {
    await site[Symbol.asyncDispose]();
    throw error;
  }
}

async function startAll(processes: readonly ServiceProcess[]): Promise<void> {
  for (const each of processes) {
    each.start();
  }
  await Promise.all(processes.map((each) => each.ready()));
}

/** Returns ports that are free, and that no other program is given by chance. */
export async function lastingPorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = randomInt(LOWEST_PORT, HIGHEST_PORT);
    if (await isFree(port, '127.0.0.1')) {
      ports.add(port);
    }
  }
  return [...ports];
}
