import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { exists, run, unpackFromDistribution } from './machine.ts';

/** The program that checks what Prometheus is given. */
export interface Promtool {
  /**
   * Runs it.
   *
   * @returns whether it found everything in order (exit code 0), and all that it printed
   */
  run(args: readonly string[], stdin?: string): Promise<{ isWell: boolean; output: string }>;
  /** Removes what was unpacked for it. */
  remove(): Promise<void>;
}

/**
 * Finds promtool on PATH; on Debian it is else taken from the package `prometheus`.
 *
 * @throws where there is none; the message says what to do
 */
export async function findPromtool(): Promise<Promtool> {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-promtool-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const program = await findProgram(folder);
    return { run: (args, stdin = '') => runTool(program, args, stdin), remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function findProgram(folder: string): Promise<string> {
  const isOnPath = await run('promtool', ['--version']).then(
    () => true,
    () => false,
  );
  if (isOnPath) {
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
