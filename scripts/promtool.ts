import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathExists, runProgram, unpackDebianPackage } from './debian-packages.ts';

export type Promtool = Awaited<ReturnType<typeof findPromtool>>;

/**
 * Finds promtool, which validates metrics and rules for Prometheus: on PATH, or in the Debian package
 * `prometheus`.
 *
 * @throws Error if promtool is missing
 */
export async function findPromtool() {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-promtool-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const program = await findProgram(folder);
    return {
      /** @returns whether the exit code is 0, and the output */
      run: (args: readonly string[], stdin = '') => runPromtool(program, args, stdin),
      remove,
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function findProgram(folder: string): Promise<string> {
  if ((await runProgram('promtool', ['--version']).catch(() => null)) !== null) {
    return 'promtool';
  }
  await unpackDebianPackage('prometheus', folder);
  const unpacked = path.join(folder, 'usr/bin/promtool');
  if (!(await pathExists(unpacked))) {
    throw new Error('promtool not found: put it on PATH (on Debian: apt-get install prometheus).');
  }
  return unpacked;
}

async function runPromtool(program: string, args: readonly string[], stdin: string) {
  const running = runProgram(program, [...args]);
  running.child.stdin?.end(stdin);
  return running.then(
    ({ stdout, stderr }) => ({ isWell: true, output: stdout + stderr }),
    (error: { stdout?: string; stderr?: string; message: string }) => ({
      isWell: false,
      output: `${error.stdout ?? ''}${error.stderr ?? ''}` || error.message,
    }),
  );
}
