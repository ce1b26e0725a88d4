import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { exists, run, unpackFromDistribution } from './machine.ts';

export type Promtool = Awaited<ReturnType<typeof findPromtool>>;

/**
 * Finds promtool, which checks what Prometheus reads: on PATH, or in Debian's package `prometheus`.
 *
 * @throws if there is none; the message says what to do
 */
export async function findPromtool() {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-promtool-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const program = await findProgram(folder);
    return {
      /** Runs it. @returns whether its exit code is 0, and all that it printed */
      run: (args: readonly string[], stdin = '') => runTool(program, args, stdin),
      /** Removes what was unpacked. */
      remove,
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function findProgram(folder: string): Promise<string> {
  if ((await run('promtool', ['--version']).catch(() => null)) !== null) {
    return 'promtool';
  }
  await unpackFromDistribution('prometheus', folder);
  const unpacked = path.join(folder, 'usr/bin/promtool');
  if (!(await exists(unpacked))) {
    throw new Error(
      'No promtool found: put it on PATH (on Debian it is in the package prometheus).',
    );
  }
  return unpacked;
}

async function runTool(program: string, args: readonly string[], stdin: string) {
  const running = run(program, [...args]);
  running.child.stdin?.end(stdin);
  return running.then(
    ({ stdout, stderr }) => ({ isWell: true, output: stdout + stderr }),
    (error: { stdout?: string; stderr?: string; message: string }) => ({
      isWell: false,
      output: `${error.stdout ?? ''}${error.stderr ?? ''}` || error.message,
    }),
  );
}
