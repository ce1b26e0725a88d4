import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import { TestMint } from '../../demo/test-mint.ts';
import { type PostgresCluster, startPostgresCluster } from '../../scripts/postgres-cluster.ts';
import { DISABLED_LIMITS_ENV } from '../helpers/service/disabled-limits.ts';
import { findStablePorts, ServiceProcess } from '../helpers/service/service-process.ts';

/** One mint of each kind. Few requests fail: the simulation tests what mints can do wrong. */
const CHAOS = { rates: { error: 0.02, cutAfter: 0.02, late: 0.05, lostMessage: 0.05 } };
const MINT_SWITCHES = [
  { chaos: CHAOS, issueDelayMs: 400, omitsExpiryAndPubkeyAfterCreation: true },
  { chaos: CHAOS, style: 'cdk', hasWebSocket: false },
] as const;

export interface Deployment {
  mints: readonly TestMint[];
  processes: readonly ServiceProcess[];
  /** Null: the processes use SQLite. */
  cluster: PostgresCluster | null;
  /** Returns the origin of a process that is up, or of a random one if all are down. */
  pickOrigin: () => string;
  /** Stops all processes. Returns what they logged as an error, and unexpected exits. */
  stopAndListProblems: () => Promise<string[]>;
}

/** Starts one process on SQLite, or two that share a PostgreSQL server. Disposing of the stack kills all of them. */
export async function startDeployment(
  stack: AsyncDisposableStack,
  database: 'sqlite' | 'postgres',
  random: SeededRandom,
): Promise<Deployment> {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-faults-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const mints = await Promise.all(MINT_SWITCHES.map((switches) => TestMint.start({ switches })));
  stack.defer(async () => {
    await Promise.all(mints.map((mint) => mint.close()));
  });
  const isPostgres = database === 'postgres';
  const cluster = isPostgres ? await startPostgresCluster({ durable: true }) : null;
  stack.defer(async () => cluster?.stop());
  const ports = await findStablePorts(isPostgres ? 2 : 1);
  const problems: string[] = [];
  const env = {
    DEFAULT_MINT_URL: mints[0]?.url ?? '',
    ALLOW_PRIVATE_NETWORKS: 'true',
    STOP_DELAY_SECONDS: '0',
    ...DISABLED_LIMITS_ENV,
    PUBLIC_ORIGINS: ports.map((port) => `http://127.0.0.1:${port}`).join(','),
    JWT_SECRET: randomBytes(32).toString('hex'),
    ...(cluster === null ? { DATA_DIR: path.join(folder, 'data') } : { DATABASE_URL: cluster.url }),
  };
  const processes = ports.map((port, index) => {
    const onUnexpectedExit = (description: string) => problems.push(description);
    const name = `process-${index + 1}`;
    const serviceProcess = new ServiceProcess({ name, port, folder, env, onUnexpectedExit });
    stack.defer(() => serviceProcess.killPermanently());
    serviceProcess.start();
    return serviceProcess;
  });
  await Promise.all(processes.map((each) => each.waitUntilReady()));
  return {
    mints,
    processes,
    cluster,
    pickOrigin: () => {
      const running = processes.filter(({ isUp }) => isUp);
      return random.pick(running.length === 0 ? processes : running).origin;
    },
    stopAndListProblems: async () => {
      for (const each of processes) {
        if (!(await each.stop())) {
          problems.push(`${each.name} did not shut down cleanly`);
        }
        problems.push(...(await each.readUnexpectedLogLines()));
      }
      return problems;
    },
  };
}
