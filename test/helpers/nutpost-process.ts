import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { NO_LIMITS } from './no-limits.ts';

const PROGRAM = path.resolve(import.meta.dirname, '../../bin/nutpost.js');

const BASE_ENV = { DEFAULT_MINT_URL: 'http://127.0.0.1:1', ALLOW_PRIVATE_NETWORKS: 'true' };

/** Exit status and output of a process. */
export interface ProcessExit {
  code: number | null;
  signal: NodeJS.Signals | null;
  stderr: string;
}

/** The program in a separate process, as an operator starts it; killed when the test ends. */
export class NutpostProcess {
  readonly #child: ChildProcess;
  readonly #ending: Promise<ProcessExit>;
  #stdout = '';
  #stderr = '';

  /**
   * @param command with its arguments
   * @param env the settings; the port is a free one
   */
  constructor(command: string, env: Record<string, string>) {
    this.#child = spawn(process.execPath, [PROGRAM, ...command.split(' ')], {
      env: {
        PORT: '0',
        STOP_DELAY_SECONDS: '0',
        ...BASE_ENV,
        ...NO_LIMITS,
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child.stdout?.on('data', (chunk) => {
      this.#stdout += chunk;
    });
    this.#child.stderr?.on('data', (chunk) => {
      this.#stderr += chunk;
    });
    this.#ending = once(this.#child, 'close').then(([code, signal]) => ({
      code,
      signal,
      stderr: this.#stderr,
    }));
    onTestFinished(() => this.kill());
  }

  /** The log, or the output of the command. */
  get stdout(): string {
    return this.#stdout;
  }

  /** Resolves with the address when the service listens. */
  async waitUntilListening(): Promise<string> {
    for (;;) {
      const url = /"url":"(http:[^"]+)".*"msg":"nutpost is listening"/.exec(this.#stdout)?.[1];
      if (url !== undefined) {
        return url;
      }
      const more = once(this.#child.stdout ?? this.#child, 'data');
      const ending = await Promise.race([more.then(() => null), this.#ending]);
      if (ending !== null) {
        throw new Error(`it ended before it listened: ${ending.stderr}`);
      }
    }
  }

  /** Resolves with the default public origin when the service listens. */
  async waitForOrigin(): Promise<string> {
    return (await this.waitUntilListening()).replace('127.0.0.1', 'localhost');
  }

  /** Resolves when the process exits by itself. */
  waitForExit(): Promise<ProcessExit> {
    return this.#ending;
  }

  /** Stops the process with SIGTERM, as an operator does. */
  async stop(): Promise<ProcessExit> {
    this.#child.kill('SIGTERM');
    return await this.#ending;
  }

  /** Kills the process with SIGKILL, like a crash. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ending;
  }
}

export interface CommandExit {
  code: number | null;
  stdout: string;
  stderr: string;
}

/**
 * Runs a command as an operator does, and waits until it exits.
 *
 * @param args the command's name, then its arguments
 * @param env the settings of the service
 */
export async function runNutpostCommand(
  args: readonly string[],
  env: Record<string, string>,
): Promise<CommandExit> {
  const child = spawn(process.execPath, [PROGRAM, ...args], {
    env: { ...BASE_ENV, ...env },
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
