import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathExists, runProgram, unpackDebianPackage } from './debian-packages.ts';

export type Promtool = Awaited<ReturnType<typeof findPromtool>>;

/**
 * Finds promtool, the program with which Prometheus validates metrics and alert rules. If promtool is not on PATH,
 * unpacks it from the Debian package `prometheus` into a temporary folder. `remove` deletes that folder.
 *
 * @throws Error if promtool is missing
 */
export async function findPromtool() {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-promtool-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const program = await findProgram(folder);
    return {
      /** Runs promtool. `hasPassed` is true if the exit code is 0. */
      run: (args: readonly string[], stdin = '') => runPromtool(program, args, stdin),
      remove,
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function findProgram(unpackFolder: string): Promise<string> {
  if ((await runProgram('promtool', ['--version']).catch(() => null)) !== null) {
    return 'promtool';
  }
  await unpackDebianPackage('prometheus', unpackFolder);
  const unpackedProgram = path.join(unpackFolder, 'usr/bin/promtool');
  if (!(await pathExists(unpackedProgram))) {
    throw new Error('promtool not found: put it on PATH (on Debian: apt-get install prometheus).');
  }
  return unpackedProgram;
}

async function runPromtool(program: string, args: readonly string[], stdin: string) {
  const execution = runProgram(program, [...args]);
  execution.child.stdin?.end(stdin);
  return execution.then(
    ({ stdout, stderr }) => ({ hasPassed: true, output: stdout + stderr }),
    (error: { stdout?: string; stderr?: string; message: string }) => ({
      hasPassed: false,
      output: `${error.stdout ?? ''}${error.stderr ?? ''}` || error.message,
    }),
  );
}
