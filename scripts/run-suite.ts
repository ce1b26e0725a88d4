import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';

let vitest: ChildProcess | null = null;
let interrupted = false;

// Ctrl-C and `kill` end the tests and not this process, which has servers to stop after them.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    interrupted = true;
    vitest?.kill(signal);
  });
}

/**
 * Runs vitest on some of its projects, with the arguments of this command behind its own.
 *
 * @param env added to the environment of the tests
 * @returns the exit code: 0 only where tests ran, to their end, and all of them passed
 */
export async function runSuite(
  projects: readonly string[],
  env: Record<string, string> = {},
): Promise<number> {
  if (interrupted) {
    return 1;
  }
  vitest = spawn(
    process.execPath,
    [
      path.resolve('node_modules/vitest/vitest.mjs'),
      'run',
      ...projects.flatMap((project) => ['--project', project]),
      ...process.argv.slice(2),
    ],
    { env: { ...process.env, ...env }, stdio: 'inherit' },
  );
  await once(vitest, 'exit');
  return interrupted ? 1 : (vitest.exitCode ?? 1);
}
