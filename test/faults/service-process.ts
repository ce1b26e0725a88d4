import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const PROGRAM = path.resolve(import.meta.dirname, '../../bin/nutpost.js');

/** A start takes about a second, but much longer on a busy machine. */
const START_TIMEOUT_MS = 60_000;

const START_POLL_MS = 50;
const START_POLL_TIMEOUT_MS = 2_000;

/** The service limits its shutdown to ten seconds. */
const STOP_TIMEOUT_MS = 15_000;

/** pino's level number for `error`. */
const ERROR_LEVEL = 50;

/** A process of the service that a test kills and restarts, always on the same port and database. */
export class ServiceProcess {
  readonly name: string;
  readonly origin: string;
  /** Output of every start. */
  readonly logFile: string;
  readonly #env: Record<string, string>;
  readonly #onUnexpectedExit: (description: string) => void;
  #child: ChildProcess | null = null;
  #isUp = false;
  #isExitExpected = false;
  #isKilledPermanently = false;

  /** @param options.onUnexpectedExit called if it exits without being stopped or killed */
  constructor(options: {
    name: string;
    port: number;
    folder: string;
    env: Record<string, string>;
    onUnexpectedExit: (description: string) => void;
  }) {
    const { name, port, folder, env, onUnexpectedExit } = options;
    this.name = name;
    this.origin = `http://127.0.0.1:${port}`;
    this.logFile = path.join(folder, `${name}.log`);
    // A killed process leaves temporary files, which are deleted with the folder.
    this.#env = { PATH: process.env['PATH'] ?? '', TMPDIR: folder, PORT: String(port), ...env };
    this.#onUnexpectedExit = onUnexpectedExit;
  }

  /** Whether it has responded to a request since its last start. */
  get isUp(): boolean {
    return this.#isUp;
  }

  /** Null while it is not running. */
  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /**
   * Spawns the process. Use {@link waitUntilReady} to wait until it responds.
   *
   * @throws Error after `killPermanently`
   */
  start(): void {
    if (this.#isKilledPermanently) {
      throw new Error(`${this.name} was killed permanently`);
    }
    const log = openSync(this.logFile, 'a');
    const child = spawn(process.execPath, [PROGRAM, 'serve'], {
      env: this.#env,
      stdio: ['ignore', log, log],
    });
    closeSync(log);
    this.#child = child;
    this.#isExitExpected = false;
    const killChild = () => child.kill('SIGKILL');
    process.once('exit', killChild);
    child.once('exit', (code, signal) => {
      process.removeListener('exit', killChild);
      this.#isUp = false;
      this.#child = null;
      if (!this.#isExitExpected) {
        this.#onUnexpectedExit(
          `${this.name} exited unexpectedly (${signal ?? `exit code ${code}`})`,
        );
      }
    });
  }

  /** @throws Error if it exits or does not respond in time */
  async waitUntilReady(): Promise<void> {
    const deadline = Date.now() + START_TIMEOUT_MS;
    while (this.#child !== null && Date.now() < deadline) {
      const signal = AbortSignal.timeout(START_POLL_TIMEOUT_MS);
      const response = await fetch(`${this.origin}/api/v2/info`, { signal }).catch(() => null);
      if (response?.ok === true) {
        this.#isUp = true;
        return;
      }
      await delay(START_POLL_MS);
    }
    const problem = this.#child === null ? 'exited during its start' : 'does not respond';
    throw new Error(`${this.name} ${problem}: see ${this.logFile}`);
  }

  /** Kills it with SIGKILL, like a crash. */
  async kill(): Promise<void> {
    await this.#terminate('SIGKILL');
  }

  /** Kills it and prevents further starts. */
  async killPermanently(): Promise<void> {
    this.#isKilledPermanently = true;
    await this.kill();
  }

  /** Stops it with SIGTERM, like an operator. @returns whether it shut down cleanly */
  async stop(): Promise<boolean> {
    const timer = setTimeout(() => this.#child?.kill('SIGKILL'), STOP_TIMEOUT_MS);
    const code = await this.#terminate('SIGTERM');
    clearTimeout(timer);
    return code === 0;
  }

  /** Returns logged errors, and output that is not a log line. */
  async readUnexpectedLogLines(): Promise<string[]> {
    const lines = (await readFile(this.logFile, 'utf8')).split('\n');
    return lines.filter((line) => line !== '' && isUnexpectedLogLine(line));
  }

  async #terminate(signal: NodeJS.Signals): Promise<number | null> {
    const child = this.#child;
    if (child === null) {
      return null;
    }
    this.#isExitExpected = true;
    this.#isUp = false;
    const exited = once(child, 'exit') as Promise<[number | null]>;
    child.kill(signal);
    return (await exited)[0];
  }
}

function isUnexpectedLogLine(line: string): boolean {
  try {
    return (JSON.parse(line) as { level: number }).level >= ERROR_LEVEL;
  } catch {
    // A kill can truncate a log line. The next start appends to that line.
    return !line.startsWith('{"level":');
  }
}
