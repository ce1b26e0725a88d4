import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { installChromium } from './chromium.ts';
import { buildImage, installImageTools } from './container-image.ts';
import { installNostrPrograms } from './nostr-relay.ts';
import { installNutshell } from './nutshell.ts';
import { installPatroniCluster } from './patroni-cluster.ts';
import { startPgBouncer } from './pgbouncer.ts';
import { startPostgresCluster } from './postgres-cluster.ts';
import { killProcessesWithFolder } from './remaining-processes.ts';
import { installReverseProxies } from './reverse-proxy.ts';

/**
 * `node scripts/run-suite.ts SUITE [VITEST ARGUMENTS]`: installs and starts the programs that a test suite needs, and
 * runs its tests with vitest. The exit code is 0 if all tests ran and passed.
 */

interface Suite {
  /** Vitest projects, which are named after the folders in test/. */
  projects: readonly string[];
  /** Installs the programs that the tests need. */
  install?: () => Promise<void>;
  /**
   * Starts what the tests need, and returns environment variables for them.
   *
   * @param stack stops what was started, after the tests
   * @param signal aborts if the suite is interrupted
   */
  start?: (stack: AsyncDisposableStack, signal: AbortSignal) => Promise<Record<string, string>>;
  /** Test files that run at the same time. Tests that measure times must run alone. */
  maxWorkers?: number;
}

const SUITES: Readonly<Record<string, Suite>> = {
  postgres: {
    projects: ['integration', 'postgres'],
    start: async (stack) => ({ TEST_DATABASE_URL: await startPostgres(stack) }),
  },
  mints: {
    projects: ['mints'],
    install: async () => {
      await installNutshell();
      await installNostrPrograms();
      await installChromium();
    },
  },
  // The tests of `load` run alone, one file at a time.
  security: { projects: ['security', 'load'], install: installReverseProxies },
  web: { projects: ['web'], install: installChromium },
  operations: {
    projects: ['operations'],
    start: async (stack) => ({ OPERATIONS_DATABASE_URL: await startPostgres(stack) }),
  },
  failover: {
    projects: ['failover'],
    install: installPatroniCluster,
    start: async (stack) => ({ TMPDIR: await createSharedFolder(stack) }),
    maxWorkers: 1,
  },
  'failover pgbouncer': {
    projects: ['acceptance', 'pooler'],
    start: async (stack) => {
      const url = await startPostgres(stack);
      const pooler = await startPgBouncer(url);
      stack.defer(() => pooler.stop());
      return { TEST_DATABASE_URL: url, TEST_POOLER_URL: pooler.url };
    },
  },
  image: {
    projects: ['image'],
    install: installImageTools,
    start: async (stack, signal) => {
      const image = await buildImage(signal);
      stack.defer(() => image.remove());
      return { IMAGE_STORAGE: image.folder };
    },
  },
};

const args = process.argv.slice(2);
/** A suite may have a variant, which has a name of two words. */
const variantName = args.slice(0, 2).join(' ');
const suiteName = variantName in SUITES ? variantName : (args[0] ?? '');
const vitestArguments = args.slice(suiteName.split(' ').length);
let vitest: ChildProcess | null = null;
const interruption = new AbortController();

// After Ctrl-C or `kill`, vitest must exit first. Then this process stops what it started.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    interruption.abort();
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
  const { projects, install, start, maxWorkers } = suite;
  await install?.();
  await using stack = new AsyncDisposableStack();
  const variables = await start?.(stack, interruption.signal);
  const projectOptions = projects.flatMap((project) => ['--project', project]);
  return await runVitest([...projectOptions, ...vitestArguments], {
    ...process.env,
    ...(maxWorkers !== undefined && { VITEST_MAX_WORKERS: String(maxWorkers) }),
    ...variables,
  });
}

/** Returns the URL of a private PostgreSQL server. */
async function startPostgres(stack: AsyncDisposableStack): Promise<string> {
  const cluster = await startPostgresCluster();
  stack.defer(() => cluster.stop());
  return cluster.url;
}

/**
 * Creates a temporary folder in which servers of other users may create theirs. Vitest kills its workers after Ctrl-C,
 * so the stack also kills the servers that they have started in the folder.
 */
async function createSharedFolder(stack: AsyncDisposableStack): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-suite-'));
  await chmod(folder, 0o755);
  stack.defer(async () => {
    await killProcessesWithFolder(folder);
    await rm(folder, { recursive: true, force: true });
  });
  return folder;
}

async function runVitest(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  if (interruption.signal.aborted) {
    return 1;
  }
  const program = path.resolve('node_modules/vitest/vitest.mjs');
  vitest = spawn(process.execPath, [program, 'run', ...args], { env, stdio: 'inherit' });
  await once(vitest, 'exit');
  return interruption.signal.aborted ? 1 : (vitest.exitCode ?? 1);
}
