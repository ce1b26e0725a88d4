import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { installNutshell } from './nutshell.ts';
import { startPostgresCluster } from './postgres-cluster.ts';
import { installReverseProxies } from './reverse-proxy.ts';

/**
 * `node scripts/run-suite.ts SUITE [ARGUMENTS]`: installs what a test suite needs, and runs vitest with the
 * arguments. The exit code is 0 only if the run was not interrupted and all tests passed.
 */

interface Suite {
  /** Vitest projects, which are folders in test/. */
  projects: readonly string[];
  installDependencies?: () => Promise<void>;
  /** Environment variable for the URL of a private PostgreSQL server. */
  databaseVariable?: string;
  /** 1 if the tests measure times that a concurrent file would disturb. */
  maxWorkers?: number;
}

const SUITES: Readonly<Record<string, Suite>> = {
  postgres: { projects: ['integration', 'postgres'], databaseVariable: 'TEST_DATABASE_URL' },
  // nutshell-limits.test.ts mostly waits, so a second file can run concurrently.
  mints: { projects: ['mints'], installDependencies: installNutshell, maxWorkers: 2 },
  security: { projects: ['security'], installDependencies: installReverseProxies, maxWorkers: 1 },
  operations: {
    projects: ['operations'],
    databaseVariable: 'OPERATIONS_DATABASE_URL',
    maxWorkers: 1,
  },
};

const [name = '', ...vitestArguments] = process.argv.slice(2);
let vitest: ChildProcess | null = null;
let interrupted = false;

// Forwards Ctrl-C and `kill` to vitest. This process then stops the PostgreSQL server.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    interrupted = true;
    vitest?.kill(signal);
  });
}

try {
  process.exitCode = await runSuite();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function runSuite(): Promise<number> {
  const suite = SUITES[name];
  if (suite === undefined) {
    throw new Error(
      `Unknown suite '${name}'. Available suites: ${Object.keys(SUITES).join(', ')}.`,
    );
  }
  const { projects, installDependencies, databaseVariable, maxWorkers } = suite;
  await installDependencies?.();
  const cluster = databaseVariable === undefined ? null : await startPostgresCluster();
  try {
    const options = projects.flatMap((project) => ['--project', project]);
    return await runVitest([...options, ...vitestArguments], {
      ...process.env,
      ...(maxWorkers !== undefined && { VITEST_MAX_WORKERS: String(maxWorkers) }),
      ...(cluster !== null && databaseVariable && { [databaseVariable]: cluster.url }),
    });
  } finally {
    await cluster?.stop();
  }
}

async function runVitest(options: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  if (interrupted) {
    return 1;
  }
  const program = path.resolve('node_modules/vitest/vitest.mjs');
  vitest = spawn(process.execPath, [program, 'run', ...options], { env, stdio: 'inherit' });
  await once(vitest, 'exit');
  return interrupted ? 1 : (vitest.exitCode ?? 1);
}
