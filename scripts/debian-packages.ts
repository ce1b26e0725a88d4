import { execFile } from 'node:child_process';
import { access, readdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

/** Runs a program and returns its output. Throws an error with the output if the exit code is not 0. */
export const runProgram = promisify(execFile);

/** Only the process that holds this lock runs apt-get. apt-get itself does not wait for all of its locks. */
const APT_LOCK_FILE = '/run/lock/nutpost-apt';

export async function pathExists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}

/** Installs packages if the system is Debian and this process runs as root. Otherwise does nothing. */
export async function installDebianPackages(...names: readonly string[]): Promise<void> {
  if (process.getuid?.() !== 0 || !(await pathExists('/usr/bin/apt-get'))) {
    return;
  }
  console.log(`Installing ${names.join(', ')} with apt-get`);
  await aptGet('update');
  await aptGet('install', '-y', '--no-install-recommends', ...names);
}

/**
 * Downloads a Debian package and unpacks it into a folder without installing it. Needs root only if the package lists
 * are outdated. Does nothing on other systems.
 */
export async function unpackDebianPackage(name: string, folder: string): Promise<void> {
  if (!(await pathExists('/usr/bin/apt-get'))) {
    return;
  }
  console.log(`Unpacking the Debian package ${name}`);
  const download = () => runProgram('apt-get', ['download', name], { cwd: folder });
  await download().catch(async () => {
    await aptGet('update');
    await download();
  });
  const packageFiles = (await readdir(folder)).filter((file) => file.endsWith('.deb'));
  for (const file of packageFiles) {
    await runProgram('dpkg-deb', ['-x', path.join(folder, file), folder]);
  }
}

async function aptGet(...args: string[]): Promise<void> {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const command = ['apt-get', '-o', 'DPkg::Lock::Timeout=300', ...args];
  await runProgram('flock', [APT_LOCK_FILE, ...command], { env });
}
