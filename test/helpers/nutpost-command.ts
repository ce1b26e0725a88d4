import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';

const PROGRAM = path.resolve(import.meta.dirname, '../../bin/nutpost.js');

/** What a command said, and how it ended. */
export interface CommandEnding {
  code: number | null;
  stdout: string;
  stderr: string;
}

/**
 * Runs a command as an operator does, to its end.
 *
 * @param args the command's name, then its arguments
 * @param env the same settings as the service's
 */
export async function runNutpost(
  args: readonly string[],
  env: Record<string, string>,
): Promise<CommandEnding> {
  const child = spawn(process.execPath, [PROGRAM, ...args], {
    env: { DEFAULT_MINT_URL: 'http://127.0.0.1:1', ALLOW_PRIVATE_NETWORKS: 'true', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  return { code, stdout, stderr };
}
