import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { DISABLED_LIMITS_ENV } from './disabled-limits.ts';

const NUTPOST_EXECUTABLE = path.resolve(import.meta.dirname, '../../../bin/nutpost.js');

/** No mint listens at this URL. */
const DEFAULT_ENV = { DEFAULT_MINT_URL: 'http://127.0.0.1:1', ALLOW_PRIVATE_NETWORKS: 'true' };

export interface ProcessExit {
  code: number | null;
  signal: NodeJS.Signals | null;
  stderr: string;
}

/** A child process that runs the `nutpost` executable. It is killed when the test ends. */
export class NutpostProcess {
  readonly #child: ChildProcess;
  readonly #exit: Promise<ProcessExit>;
  #stdout = '';
  #stderr = '';

  /** @param command name and arguments, separated by spaces */
  constructor(command: string, env: Record<string, string>) {
    this.#child = spawn(process.execPath, [NUTPOST_EXECUTABLE, ...command.split(' ')], {
      env: { PORT: '0', STOP_DELAY_SECONDS: '0', ...DEFAULT_ENV, ...DISABLED_LIMITS_ENV, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child.stdout?.on('data', (chunk) => {
      this.#stdout += chunk;
    });
    this.#child.stderr?.on('data', (chunk) => {
      this.#stderr += chunk;
    });
    this.#exit = once(this.#child, 'close').then(([code, signal]) => ({
      code,
      signal,
      stderr: this.#stderr,
    }));
    onTestFinished(() => this.kill());
  }

  /** The output so far. The service writes its log to stdout. */
  get stdout(): string {
    return this.#stdout;
  }

  /** As a reader that has ended. */
  closeStdout(): void {
    this.#child.stdout?.destroy();
  }

  async waitForUrl(): Promise<string> {
    for (;;) {
      const url = /"url":"(http:[^"]+)".*"msg":"nutpost is listening"/.exec(this.#stdout)?.[1];
      if (url !== undefined) {
        return url;
      }
      const moreOutput = once(this.#child.stdout ?? this.#child, 'data');
      const exit = await Promise.race([moreOutput.then(() => null), this.#exit]);
      if (exit !== null) {
        throw new Error(`the service exited before it listened: ${exit.stderr}`);
      }
    }
  }

  async waitForOrigin(): Promise<string> {
    return (await this.waitForUrl()).replace('127.0.0.1', 'localhost');
  }

  waitForExit(): Promise<ProcessExit> {
    return this.#exit;
  }

  async stop(): Promise<ProcessExit> {
    this.#child.kill('SIGTERM');
    return await this.#exit;
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exit;
  }
}

export interface CommandExit {
  code: number | null;
  stdout: string;
  stderr: string;
}

export async function runNutpostCommand(
  args: readonly string[],
  env: Record<string, string>,
  input = '',
): Promise<CommandExit> {
  const child = spawn(process.execPath, [NUTPOST_EXECUTABLE, ...args], {
    env: { ...DEFAULT_ENV, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  child.stdin.end(input);
  onTestFinished(() => void child.kill('SIGKILL'));
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  return { code, stdout, stderr };
}
