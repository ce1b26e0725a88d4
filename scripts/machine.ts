import { execFile } from 'node:child_process';
import { access } from 'node:fs/promises';
import { promisify } from 'node:util';

/** Runs a program to its end; rejects, with what it printed, where that is not exit code 0. */
export const run = promisify(execFile);

/** Whether a file or folder exists. */
export async function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}

/** Installs a package of the distribution, where this is Debian and we are root; else nothing. */
export async function installFromDistribution(name: string): Promise<void> {
  if (process.getuid?.() !== 0 || !(await exists('/usr/bin/apt-get'))) {
    return;
  }
  console.log(`Installing ${name} by apt-get`);
  await run('apt-get', ['update']);
  await run('apt-get', ['install', '-y', '--no-install-recommends', name], {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  });
}
