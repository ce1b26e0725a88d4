import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** A server starts in about three seconds; a busy machine needs many times that. */
const START_TIMEOUT_MS = 60_000;

/** How long a server may take to stop before it is killed. */
const STOP_TIMEOUT_MS = 10_000;

const POLL_INTERVAL_MS = 50;

/** The end of a server's output, for the message of a failed start. */
const MAX_OUTPUT_CHARACTERS = 20_000;

/** Below Linux's default ephemeral range: the system assigns a free port to no other program meanwhile. */
const FIRST_FREE_PORT = 10_240;
export const LAST_FREE_PORT = 25_000;
let nextPort = randomInt(FIRST_FREE_PORT, LAST_FREE_PORT + 1);

/** A server for tests or figures. It ends with the process that started it. */
export class ServerProcess {
  readonly #name: string;
  readonly #child: ChildProcess;
  #output = '';

  /** @param name for messages */
  constructor(
    name: string,
    command: string,
    args: readonly string[],
    options: { cwd: string; env?: NodeJS.ProcessEnv; uid?: number; gid?: number },
  ) {
    this.#name = name;
    // A process group of its own, which is killed as a whole, and which Ctrl-C does not reach.
    this.#child = spawn(command, args, {
      ...options,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child.stdout?.on('data', this.#keepOutput);
    this.#child.stderr?.on('data', this.#keepOutput);
    this.#child.on('error', (error) => this.#keepOutput(error.message));
    process.once('exit', this.#kill);
  }

  /**
   * Asks repeatedly until there is an answer.
   *
   * @param ask null: not yet
   * @throws if the server ended or did not answer in time; the message has its output
   */
  async firstAnswer<T>(ask: () => Promise<T | null>): Promise<T> {
    const deadline = Date.now() + START_TIMEOUT_MS;
    while (this.#isRunning() && Date.now() < deadline) {
      const answer = await ask();
      if (answer !== null) {
        return answer;
      }
      await delay(POLL_INTERVAL_MS);
    }
    throw new Error(`${this.#name} did not start:\n${this.#output}`);
  }

  /** @param signal the one with which this server shuts down cleanly at once */
  async stop(signal: NodeJS.Signals): Promise<void> {
    process.removeListener('exit', this.#kill);
    if (!this.#isRunning()) {
      return;
    }
    const gone = once(this.#child, 'exit');
    this.#child.kill(signal);
    const killer = setTimeout(this.#kill, STOP_TIMEOUT_MS);
    await gone;
    clearTimeout(killer);
  }

  readonly #kill = () => {
    if (this.#child.pid !== undefined && this.#isRunning()) {
      process.kill(-this.#child.pid, 'SIGKILL');
    }
  };

  readonly #keepOutput = (chunk: Buffer | string) => {
    this.#output = (this.#output + chunk.toString()).slice(-MAX_OUTPUT_CHARACTERS);
  };

  #isRunning(): boolean {
    const { pid, exitCode, signalCode } = this.#child;
    return pid !== undefined && exitCode === null && signalCode === null;
  }
}

/** Returns a port that was free a moment ago, another one at each call. */
export async function freePort(host: string): Promise<number> {
  for (;;) {
    const port = nextPort;
    nextPort = port === LAST_FREE_PORT ? FIRST_FREE_PORT : port + 1;
    if (await isFree(port, host)) {
      return port;
    }
  }
}

/** Whether no program listens on a port now. */
export async function isFree(port: number, host: string): Promise<boolean> {
  const probe = createServer().listen(port, host);
  try {
    await once(probe, 'listening');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') {
      return false;
    }
    throw error;
  }
  probe.close();
  await once(probe, 'close');
  return true;
}
