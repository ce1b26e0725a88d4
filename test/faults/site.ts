import { randomBytes, randomInt } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { type Cluster, startCluster } from '../../scripts/postgres-cluster.ts';
import { isFree, LAST_FREE_PORT } from '../../scripts/server-process.ts';
import type { Dice } from '../../src/demo/test-mint/dice.ts';
import type { DatabaseLocation } from '../../src/store/database.ts';
import { NO_LIMITS } from '../helpers/no-limits.ts';
import { pause } from './client.ts';
import { ServiceProcess } from './service-process.ts';

/** Where the service keeps its data in a run. */
export type DatabaseKind = 'embedded' | 'postgres';

/** Where that is to be found. */
export type SiteDatabase = Exclude<DatabaseLocation, { kind: 'memory' }>;

/** How long a process lives before it is killed; in long storms some live longer. */
const SHORTEST_LIFE_MS = 1_500;
const LONGEST_LIFE_MS = 13_000;

/** Share of the starts that are killed before they finish. */
const KILLED_START_SHARE = 0.25;
const LONGEST_KILLED_START_MS = 2_000;

/** Most processes are back soon; some stay away until their leases have expired. */
const LONGEST_ABSENCE_MS = 2_000;
const LONG_ABSENCE_SHARE = 0.2;
const LONG_ABSENCE_MS = 18_000;

/**
 * Nobody else gives these away while a process, or a relay, is not there: they are above those of
 * `freePort`, and below those that systems give to outgoing connections.
 */
const LOWEST_PORT = LAST_FREE_PORT + 1;
const HIGHEST_PORT = 32_767;

/** The service as it is installed in a run: its processes, and the database that they share. */
export class Site implements AsyncDisposable {
  readonly processes: readonly ServiceProcess[];
  /** The database that they share. */
  readonly location: SiteDatabase;
  readonly #cluster: Cluster | null;
  #kills = 0;
  #restarts = 0;

  /**
   * Starts one process on an embedded database, or several that share one on PostgreSQL.
   *
   * @param options.sharing how many these are; default two
   * @param options.folder everything of the site is kept there
   * @param options.env settings beside those that every site has
   * @param options.onDeath told of a process that ended though nobody asked it to
   */
  static async open(options: {
    database: DatabaseKind;
    folder: string;
    defaultMintUrl: string;
    sharing?: 2 | 3;
    env?: Record<string, string>;
    onDeath: (description: string) => void;
  }): Promise<Site> {
    const { database, folder, defaultMintUrl, sharing = 2, onDeath } = options;
    await mkdir(folder, { recursive: true });
    const cluster = database === 'postgres' ? await startCluster() : null;
    const names = ['one', 'two', 'three'].slice(0, cluster === null ? 1 : sharing);
    const ports = await lastingPorts(names.length);
    const location: SiteDatabase =
      cluster === null
        ? { kind: 'embedded', dataDir: path.join(folder, 'data') }
        : { kind: 'postgres', url: cluster.url };
    const env = {
      DEFAULT_MINT_URL: defaultMintUrl,
      ALLOW_PRIVATE_NETWORKS: 'true',
      ...NO_LIMITS,
      PUBLIC_ORIGINS: ports.map((port) => `http://127.0.0.1:${port}`).join(','),
      ...(location.kind === 'postgres'
        ? { DATABASE_URL: location.url, JWT_SECRET: randomBytes(32).toString('hex') }
        : { DATA_DIR: location.dataDir }),
      ...options.env,
    };
    const processes = ports.map(
      (port, index) =>
        new ServiceProcess({ name: names[index] as string, port, folder, env, onDeath }),
    );
    const site = new Site(processes, location, cluster);
    try {
      for (const each of processes) {
        each.start();
      }
      await Promise.all(processes.map((each) => each.ready()));
      return site;
    } catch (error) {
      await site[Symbol.asyncDispose]();
      throw error;
    }
  }

  private constructor(
    processes: readonly ServiceProcess[],
    location: SiteDatabase,
    cluster: Cluster | null,
  ) {
    this.processes = processes;
    this.location = location;
    this.#cluster = cluster;
  }

  get kills(): number {
    return this.#kills;
  }

  /** How many of the starts after a kill led to a process that answered. */
  get restarts(): number {
    return this.#restarts;
  }

  /** The origin of a process that is up; where none is, of one that is down. */
  anyOrigin(dice: Dice): string {
    const up = this.processes.filter((each) => each.isUp);
    return dice.pick(up.length === 0 ? this.processes : up).origin;
  }

  /**
   * Kills processes at random moments and starts them again, until the signal. Then all are up.
   *
   * @param longestLifeMs makes kills rarer if it exceeds the default
   */
  async keepKilling(dice: Dice, longestLifeMs: number, signal: AbortSignal): Promise<void> {
    const life = () => dice.between(SHORTEST_LIFE_MS, Math.max(LONGEST_LIFE_MS, longestLifeMs));
    await pause(life(), signal);
    while (!signal.aborted) {
      const victim = dice.pick(this.processes);
      await this.#kill(victim);
      await pause(this.#absenceMs(dice), signal);
      victim.start();
      while (!signal.aborted && dice.happens(KILLED_START_SHARE)) {
        await pause(dice.between(0, LONGEST_KILLED_START_MS), signal);
        await this.#kill(victim);
        victim.start();
      }
      await victim.ready();
      this.#restarts += 1;
      await pause(life(), signal);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.processes.map((each) => each.retire()));
    await this.#cluster?.stop();
  }

  async #kill(victim: ServiceProcess): Promise<void> {
    this.#kills += 1;
    await victim.kill();
  }

  #absenceMs(dice: Dice): number {
    const isLong = dice.happens(LONG_ABSENCE_SHARE) && this.processes.length > 1;
    return isLong ? LONG_ABSENCE_MS : dice.between(0, LONGEST_ABSENCE_MS);
  }
}

/** Ports that are free now, and that nobody takes but on purpose. */
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
