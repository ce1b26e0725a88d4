import { execFile } from 'node:child_process';
import { access, readdir } from 'node:fs/promises';
import path from 'node:path';
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

/**
 * Unpacks a package of the distribution into a folder, where this is Debian; else nothing. Nothing is
 * installed or started, and only where the lists of packages are old does it take root.
 */
export async function unpackFromDistribution(name: string, folder: string): Promise<void> {
  if (!(await exists('/usr/bin/apt-get'))) {
    return;
  }
  console.log(`Unpacking ${name} of the distribution`);
  const download = () => run('apt-get', ['download', name], { cwd: folder });
  await download().catch(async () => {
    await run('apt-get', ['update']);
    await download();
  });
  const archives = (await readdir(folder)).filter((file) => file.endsWith('.deb'));
  for (const archive of archives) {
    await run('dpkg-deb', ['-x', path.join(folder, archive), folder]);
  }
}
