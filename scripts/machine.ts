import { execFile } from 'node:child_process';
import { access, readdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

/** Runs a program to its end. Rejects with what it printed if the exit code is not 0. */
export const run = promisify(execFile);

/** Suites that run beside each other install packages in turn: apt-get does not wait for its locks. */
const APT_LOCK = '/run/lock/nutpost-apt';

/** Whether a file or folder exists. */
export async function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}

/** Installs packages if this is Debian, run by root. Does nothing elsewhere. */
export async function installFromDistribution(...names: readonly string[]): Promise<void> {
  if (process.getuid?.() !== 0 || !(await exists('/usr/bin/apt-get'))) {
    return;
  }
  console.log(`Installing ${names.join(', ')} by apt-get`);
  await aptGet('update');
  await aptGet('install', '-y', '--no-install-recommends', ...names);
}

/**
 * Unpacks a package into a folder if this is Debian, without installing it. It needs root only if the
 * package lists are outdated.
 */
export async function unpackFromDistribution(name: string, folder: string): Promise<void> {
  if (!(await exists('/usr/bin/apt-get'))) {
    return;
  }
  console.log(`Unpacking ${name} of the distribution`);
  const download = () => run('apt-get', ['download', name], { cwd: folder });
  await download().catch(async () => {
    await aptGet('update');
    await download();
  });
  const archives = (await readdir(folder)).filter((file) => file.endsWith('.deb'));
  for (const archive of archives) {
    await run('dpkg-deb', ['-x', path.join(folder, archive), folder]);
  }
}

async function aptGet(...args: string[]): Promise<void> {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  await run('flock', [APT_LOCK, 'apt-get', '-o', 'DPkg::Lock::Timeout=300', ...args], { env });
}
