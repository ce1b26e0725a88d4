import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { NO_LIMITS } from './no-limits.ts';

const PROGRAM = path.resolve(import.meta.dirname, '../../bin/nutpost.js');

const BASIC_ENV = { DEFAULT_MINT_URL: 'http://127.0.0.1:1', ALLOW_PRIVATE_NETWORKS: 'true' };

/** How a process ended, and what it wrote. */
export interface Ending {
  code: number | null;
  signal: NodeJS.Signals | null;
  stderr: string;
}

/** The program in a process of its own, as an operator starts it; killed when the test ends. */
export class NutpostProcess {
  readonly #child: ChildProcess;
  readonly #ending: Promise<Ending>;
  #stdout = '';
  #stderr = '';

  /**
   * @param command with its arguments
   * @param env its settings; the port is a free one
   */
  constructor(command: string, env: Record<string, string>) {
    this.#child = spawn(process.execPath, [PROGRAM, ...command.split(' ')], {
      env: {
        PORT: '0',
        STOP_DELAY_SECONDS: '0',
        ...BASIC_ENV,
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

  /** What it wrote to its log, or as the output of the command. */
  get stdout(): string {
    return this.#stdout;
  }

  /** Resolves with its address once it listens. */
  async listening(): Promise<string> {
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

  /** The public origin that it has without settings, once it listens. */
  async origin(): Promise<string> {
    return (await this.listening()).replace('127.0.0.1', 'localhost');
  }

  /** Resolves when it ended by itself. */
  ended(): Promise<Ending> {
    return this.#ending;
  }

  /** As an operator stops it. */
  async stop(): Promise<Ending> {
    this.#child.kill('SIGTERM');
    return await this.#ending;
  }

  /** As a crash ends it: kill -9. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ending;
  }
}

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
    env: { ...BASIC_ENV, ...env },
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
