import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { installDebianPackages, pathExists, runProgram } from './debian-packages.ts';

/** Returns the folder of a Python environment, which {@link installPythonEnvironment} creates. */
export function getPythonEnvironment(name: string): string {
  return path.resolve('node_modules/.cache', name);
}

/**
 * Installs packages into a Python environment under node_modules/.cache, unless it exists already. Also installs
 * Python's venv module if it is missing and this process runs as root on Debian.
 *
 * @param name contains the versions of the packages, so that other versions are installed into another folder
 * @throws Error if Python 3.10 or later is missing, or if the installation fails
 */
export async function installPythonEnvironment(
  name: string,
  packages: readonly string[],
): Promise<void> {
  const folder = getPythonEnvironment(name);
  // Created last. Without the file, the installation is incomplete and starts again.
  const marker = path.join(folder, 'installed');
  if (await pathExists(marker)) {
    return;
  }
  await requirePython();
  console.log(`Installing ${name} (needed once, takes about a minute)`);
  await rm(folder, { recursive: true, force: true });
  await runProgram('python3', ['-m', 'venv', folder]);
  await runProgram(path.join(folder, 'bin/pip'), [
    'install',
    '--quiet',
    '--disable-pip-version-check',
    ...packages,
  ]);
  await writeFile(marker, '');
}

async function requirePython(): Promise<void> {
  if (!(await canRunPython('import sys; assert sys.version_info >= (3, 10)'))) {
    throw new Error(
      'The tests with programs in Python need Python 3.10 or later as python3 on PATH.',
    );
  }
  // Debian's python3 package contains `venv`, but not the module `ensurepip`, which `venv` needs.
  const hasVenv = () => canRunPython('import venv, ensurepip');
  if (!(await hasVenv())) {
    await installDebianPackages('python3-venv');
    if (!(await hasVenv())) {
      throw new Error("Python's venv module is missing (on Debian: apt-get install python3-venv).");
    }
  }
}

function canRunPython(program: string): Promise<boolean> {
  return runProgram('python3', ['-c', program]).then(
    () => true,
    () => false,
  );
}
