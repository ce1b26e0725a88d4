import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const PROGRAM = path.resolve(import.meta.dirname, '../../bin/nutpost.js');

/** A start takes a second; a busy machine may need many times that. */
const START_TIMEOUT_MS = 60_000;

const START_POLL_MS = 50;
const START_POLL_TIMEOUT_MS = 2_000;

/** The service ends a stop after ten seconds. */
const STOP_TIMEOUT_MS = 15_000;

/** pino's number for ERROR. */
const ERROR_LEVEL = 50;

/** A process of the service that is killed and restarted, always on the same port and database. */
export class ServiceProcess {
  readonly name: string;
  readonly origin: string;
  /** The output of all of its lives. */
  readonly logFile: string;
  readonly #env: Record<string, string>;
  readonly #onDeath: (description: string) => void;
  #child: ChildProcess | null = null;
  #isUp = false;
  #isEnding = false;
  #isRetired = false;

  /** @param options.onDeath called if it exits on its own */
  constructor(options: {
    name: string;
    port: number;
    folder: string;
    env: Record<string, string>;
    onDeath: (description: string) => void;
  }) {
    const { name, port, folder, env, onDeath } = options;
    this.name = name;
    this.origin = `http://127.0.0.1:${port}`;
    this.logFile = path.join(folder, `${name}.log`);
    // Temporary files of a killed process are deleted with the folder.
    this.#env = { PATH: process.env['PATH'] ?? '', TMPDIR: folder, PORT: String(port), ...env };
    this.#onDeath = onDeath;
  }

  /** Whether it has answered since its last start. */
  get isUp(): boolean {
    return this.#isUp;
  }

  /** Of the system; null while it is not running. */
  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /**
   * Starts it. It is up when {@link ready} resolves.
   *
   * @throws if it is retired
   */
  start(): void {
    if (this.#isRetired) {
      throw new Error(`${this.name} is retired`);
    }
    const log = openSync(this.logFile, 'a');
    const child = spawn(process.execPath, [PROGRAM, 'serve'], {
      env: this.#env,
      stdio: ['ignore', log, log],
    });
    closeSync(log);
    this.#child = child;
    this.#isEnding = false;
    const endWithUs = () => child.kill('SIGKILL');
    process.once('exit', endWithUs);
    child.once('exit', (code, signal) => {
      process.removeListener('exit', endWithUs);
      this.#isUp = false;
      this.#child = null;
      if (!this.#isEnding) {
        this.#onDeath(`${this.name} ended by itself (${signal ?? `exit code ${code}`})`);
      }
    });
  }

  /** @throws if it ends, or does not answer in time */
  async ready(): Promise<void> {
    const deadline = Date.now() + START_TIMEOUT_MS;
    while (this.#child !== null && Date.now() < deadline) {
      const signal = AbortSignal.timeout(START_POLL_TIMEOUT_MS);
      const answer = await fetch(`${this.origin}/api/v2/info`, { signal }).catch(() => null);
      if (answer?.ok === true) {
        this.#isUp = true;
        return;
      }
      await delay(START_POLL_MS);
    }
    const what = this.#child === null ? 'ended before it answered' : 'does not answer';
    throw new Error(`${this.name} ${what}: see ${this.logFile}`);
  }

  /** Ends it like a crash: kill -9. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** Kills it for good. It cannot be started again. */
  async retire(): Promise<void> {
    this.#isRetired = true;
    await this.kill();
  }

  /** Stops it like an operator. @returns whether it shut down cleanly */
  async stop(): Promise<boolean> {
    const timer = setTimeout(() => this.#child?.kill('SIGKILL'), STOP_TIMEOUT_MS);
    const code = await this.#end('SIGTERM');
    clearTimeout(timer);
    return code === 0;
  }

  /** Returns the logged errors of all of its lives, and output that is not a log line. */
  async complaints(): Promise<string[]> {
    const lines = (await readFile(this.logFile, 'utf8')).split('\n');
    return lines.filter((line) => line !== '' && isComplaint(line));
  }

  async #end(signal: NodeJS.Signals): Promise<number | null> {
    const child = this.#child;
    if (child === null) {
      return null;
    }
    this.#isEnding = true;
    this.#isUp = false;
    const gone = once(child, 'exit') as Promise<[number | null]>;
    child.kill(signal);
    return (await gone)[0];
  }
}

function isComplaint(line: string): boolean {
  try {
    return (JSON.parse(line) as { level: number }).level >= ERROR_LEVEL;
  } catch {
    // A kill can cut off a line of the log; the next life appends to it.
    return !line.startsWith('{"level":');
  }
}
