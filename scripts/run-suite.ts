import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { installChromium } from './chromium.ts';
import { installNutshell } from './nutshell.ts';
import { type PgBouncer, startPgBouncer } from './pgbouncer.ts';
import { startPostgresCluster } from './postgres-cluster.ts';
import { installReverseProxies } from './reverse-proxy.ts';

/**
 * `node scripts/run-suite.ts SUITE [VITEST ARGUMENTS]`: installs and starts the programs that a test suite needs, and
 * runs its tests with vitest. The exit code is 0 if all tests ran and passed.
 */

interface Suite {
  /** Vitest projects, which are named after the folders in test/. */
  projects: readonly string[];
  installDependencies?: () => Promise<void>;
  /** If set, the suite runs with a PostgreSQL server, whose URL is in this environment variable. */
  databaseUrlVariable?: string;
  /** If true, the tests connect to the PostgreSQL server through PgBouncer, whose URL is in `TEST_POOLER_URL`. */
  usesPooler?: boolean;
  /** Test files that run at the same time. Tests that measure times must run alone. */
  maxWorkers?: number;
}

const SUITES: Readonly<Record<string, Suite>> = {
  postgres: { projects: ['integration', 'postgres'], databaseUrlVariable: 'TEST_DATABASE_URL' },
  // nutshell-limits.test.ts mostly waits, so another file can run at the same time.
  mints: { projects: ['mints'], installDependencies: installNutshell, maxWorkers: 2 },
  security: { projects: ['security'], installDependencies: installReverseProxies, maxWorkers: 1 },
  // Each test file starts a browser, which uses as much of a core as its test.
  web: { projects: ['web'], installDependencies: installChromium, maxWorkers: 2 },
  operations: {
    projects: ['operations'],
    databaseUrlVariable: 'OPERATIONS_DATABASE_URL',
    maxWorkers: 1,
  },
  failover: { projects: ['failover'], maxWorkers: 1 },
  'failover pgbouncer': {
    projects: ['acceptance', 'pooler'],
    databaseUrlVariable: 'TEST_DATABASE_URL',
    usesPooler: true,
  },
};

const args = process.argv.slice(2);
/** A suite may have a variant, which has a name of two words. */
const variantName = args.slice(0, 2).join(' ');
const suiteName = variantName in SUITES ? variantName : (args[0] ?? '');
const vitestArguments = args.slice(suiteName.split(' ').length);
let vitest: ChildProcess | null = null;
let isInterrupted = false;

// After Ctrl-C or `kill`, vitest must exit first. Then this process stops the PostgreSQL server.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    isInterrupted = true;
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
  const suite = SUITES[suiteName];
  if (suite === undefined) {
    throw new Error(
      `Unknown suite '${suiteName}'. Available suites: ${Object.keys(SUITES).join(', ')}.`,
    );
  }
  const { projects, installDependencies, databaseUrlVariable, usesPooler, maxWorkers } = suite;
  await installDependencies?.();
  const cluster = databaseUrlVariable === undefined ? null : await startPostgresCluster();
  let pooler: PgBouncer | null = null;
  try {
    pooler = cluster !== null && usesPooler ? await startPgBouncer(cluster.url) : null;
    const projectOptions = projects.flatMap((project) => ['--project', project]);
    return await runVitest([...projectOptions, ...vitestArguments], {
      ...process.env,
      ...(maxWorkers !== undefined && { VITEST_MAX_WORKERS: String(maxWorkers) }),
      ...(cluster !== null && databaseUrlVariable && { [databaseUrlVariable]: cluster.url }),
      ...(pooler !== null && { TEST_POOLER_URL: pooler.url }),
    });
  } finally {
    await pooler?.stop();
    await cluster?.stop();
  }
}

async function runVitest(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  if (isInterrupted) {
    return 1;
  }
  const program = path.resolve('node_modules/vitest/vitest.mjs');
  vitest = spawn(process.execPath, [program, 'run', ...args], { env, stdio: 'inherit' });
  await once(vitest, 'exit');
  return isInterrupted ? 1 : (vitest.exitCode ?? 1);
}
