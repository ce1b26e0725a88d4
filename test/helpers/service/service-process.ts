import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { callOnExit, isPortFree, MAX_TEST_PORT } from '../../../scripts/server-process.ts';
import { hasLevel } from './log-capture.ts';

const PROGRAM = path.resolve(import.meta.dirname, '../../../bin/nutpost.js');

/** A start takes about a second on an idle machine, and much longer on a busy machine. */
const START_TIMEOUT_MS = 60_000;

const READINESS_POLL_INTERVAL_MS = 50;
const READINESS_REQUEST_TIMEOUT_MS = 2_000;

/** Longer than the service's own limit for a shutdown, which is 10 s. */
const STOP_TIMEOUT_MS = 15_000;

/** These ports are above those of `findFreePort`, and below those that Linux assigns to outgoing connections. */
const MIN_PORT = MAX_TEST_PORT + 1;
const MAX_PORT = 32_767;

/** A process of the service that a test can kill and restart. Its port and database stay the same. */
export class ServiceProcess {
  readonly name: string;
  readonly origin: string;
  readonly logFile: string;
  readonly #env: Record<string, string>;
  readonly #onUnexpectedExit: (description: string) => void;
  #child: ChildProcess | null = null;
  #isUp = false;
  #isExitExpected = false;
  #isKilledPermanently = false;

  /** @param options.onUnexpectedExit called if the process exits without being stopped or killed */
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
    // A killed process leaves its temporary files. In this folder, they are deleted with the folder.
    this.#env = { PATH: process.env['PATH'] ?? '', TMPDIR: folder, PORT: String(port), ...env };
    this.#onUnexpectedExit = onUnexpectedExit;
  }

  get isUp(): boolean {
    return this.#isUp;
  }

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
    const logFd = openSync(this.logFile, 'a');
    const child = spawn(process.execPath, [PROGRAM, 'serve'], {
      env: this.#env,
      stdio: ['ignore', logFd, logFd],
    });
    closeSync(logFd);
    this.#child = child;
    this.#isExitExpected = false;
    const killChild = () => child.kill('SIGKILL');
    const stopKillingOnExit = callOnExit(killChild);
    child.once('exit', (code, signal) => {
      stopKillingOnExit();
      this.#isUp = false;
      this.#child = null;
      if (!this.#isExitExpected) {
        this.#onUnexpectedExit(
          `${this.name} exited unexpectedly (${signal ?? `exit code ${code}`})`,
        );
      }
    });
  }

  /** @throws Error if the process exits or does not respond in time */
  async waitUntilReady(): Promise<void> {
    const deadlineMs = Date.now() + START_TIMEOUT_MS;
    while (this.#child !== null && Date.now() < deadlineMs) {
      const signal = AbortSignal.timeout(READINESS_REQUEST_TIMEOUT_MS);
      const response = await fetch(`${this.origin}/api/v2/info`, { signal }).catch(() => null);
      if (response?.ok === true) {
        this.#isUp = true;
        return;
      }
      await delay(READINESS_POLL_INTERVAL_MS);
    }
    const problem = this.#child === null ? 'exited during its start' : 'does not respond';
    throw new Error(`${this.name} ${problem}: see ${this.logFile}`);
  }

  async kill(): Promise<void> {
    await this.#terminate('SIGKILL');
  }

  async killPermanently(): Promise<void> {
    this.#isKilledPermanently = true;
    await this.kill();
  }

  /** Stops the process with SIGTERM, like an operator. @returns whether the process shut down cleanly */
  async stop(): Promise<boolean> {
    const killTimer = setTimeout(() => this.#child?.kill('SIGKILL'), STOP_TIMEOUT_MS);
    const code = await this.#terminate('SIGTERM');
    clearTimeout(killTimer);
    return code === 0;
  }

  async readUnexpectedLogLines(): Promise<string[]> {
    const lines = (await readFile(this.logFile, 'utf8')).split('\n');
    return lines.filter((line) => line !== '' && isUnexpectedLogLine(line));
  }

  /** @returns the exit code; null if the process was not running or a signal killed it */
  async #terminate(signal: NodeJS.Signals): Promise<number | null> {
    const child = this.#child;
    if (child === null) {
      return null;
    }
    this.#isExitExpected = true;
    this.#isUp = false;
    const exit = once(child, 'exit') as Promise<[number | null]>;
    child.kill(signal);
    return (await exit)[0];
  }
}

function isUnexpectedLogLine(line: string): boolean {
  try {
    return hasLevel(line, 'error');
  } catch {
    // Not JSON: a kill truncated this log line, and the next start appended its first line to it.
    return !line.startsWith('{"level":');
  }
}

/** Returns free ports that stay free while a process restarts, because Linux does not assign them itself. */
export async function findStablePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = randomInt(MIN_PORT, MAX_PORT);
    if (await isPortFree(port, '127.0.0.1')) {
      ports.add(port);
    }
  }
  return [...ports];
}
