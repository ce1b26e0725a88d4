import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const PROGRAM = path.resolve(import.meta.dirname, '../../bin/nutpost.js');

/** A start takes seconds with the embedded database; a busy machine may need many times that. */
const START_TIMEOUT_MS = 240_000;

const START_POLL_MS = 50;
const START_POLL_TIMEOUT_MS = 2_000;

/** The command line gives a stop ten seconds before it ends all the same. */
const STOP_TIMEOUT_MS = 15_000;

/** pino's number for ERROR. */
const ERROR_LEVEL = 50;

/** A process of the service that is killed and started again, always on the same port and database. */
export class ServiceProcess {
  readonly name: string;
  readonly origin: string;
  /** What all of its lives have printed. */
  readonly logFile: string;
  readonly #env: Record<string, string>;
  readonly #onDeath: (description: string) => void;
  #child: ChildProcess | null = null;
  #isUp = false;
  /** Whether its end, when it comes, is our doing. */
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
    // What a killed process leaves behind goes with the folder.
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
   * @throws where it is retired
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

  /** @throws where it ends, or does not answer in time */
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

  /** As a crash ends it: kill -9. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** Kills it for good: whoever was about to start it again cannot. */
  async retire(): Promise<void> {
    this.#isRetired = true;
    await this.kill();
  }

  /** As an operator stops it. @returns whether it ended in order */
  async stop(): Promise<boolean> {
    const timer = setTimeout(() => this.#child?.kill('SIGKILL'), STOP_TIMEOUT_MS);
    const code = await this.#end('SIGTERM');
    clearTimeout(timer);
    return code === 0;
  }

  /** The errors of all of its lives, and what is no line of its log at all. */
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
    // A kill can tear a line of the log, and the next life goes on behind it.
    return !line.startsWith('{"level":');
  }
}
