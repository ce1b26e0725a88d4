import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { installNutshell } from './nutshell.ts';
import { startCluster } from './postgres-cluster.ts';
import { installReverseProxies } from './reverse-proxy.ts';

/**
 * `node scripts/run-suite.ts SUITE [ARGUMENTS]`: prepares what a suite needs, and runs vitest with the
 * arguments. The exit code is 0 only if tests ran to their end and all of them passed.
 */

interface Suite {
  /** Folders of test/. */
  projects: readonly string[];
  install?: () => Promise<void>;
  /** Receives the URL of a private PostgreSQL server. */
  databaseVariable?: string;
  /** 1 if tests measure times that a second file would disturb. */
  filesAtOnce?: number;
}

const SUITES: Readonly<Record<string, Suite>> = {
  postgres: { projects: ['integration', 'postgres'], databaseVariable: 'TEST_DATABASE_URL' },
  // The file about the mint's limits waits most of the time.
  mints: { projects: ['mints'], install: installNutshell, filesAtOnce: 2 },
  security: { projects: ['security'], install: installReverseProxies, filesAtOnce: 1 },
  operations: {
    projects: ['operations'],
    databaseVariable: 'OPERATIONS_DATABASE_URL',
    filesAtOnce: 1,
  },
};

const [name = '', ...vitestArguments] = process.argv.slice(2);
let vitest: ChildProcess | null = null;
let interrupted = false;

// Ctrl-C and `kill` end the tests. This process then stops the server that it started.
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
    throw new Error(`No such suite: ${name}. There are: ${Object.keys(SUITES).join(', ')}.`);
  }
  const { projects, install, databaseVariable, filesAtOnce } = suite;
  await install?.();
  const cluster = databaseVariable === undefined ? null : await startCluster();
  try {
    const options = projects.flatMap((project) => ['--project', project]);
    return await runVitest([...options, ...vitestArguments], {
      ...process.env,
      ...(filesAtOnce !== undefined && { VITEST_MAX_WORKERS: String(filesAtOnce) }),
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
