import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** A server starts in a second or three; a busy machine may need many times that. */
const START_TIMEOUT_MS = 60_000;

/** How long a server, whose data is thrown away anyway, may take to end before it is killed. */
const STOP_TIMEOUT_MS = 10_000;

const POLL_INTERVAL_MS = 50;

/** What a server printed last, for the message of a failed start. */
const MAX_OUTPUT_CHARACTERS = 20_000;

/** Below those that Linux gives, by default, to whoever asks for any: nobody else gets a free one in the meantime. */
const FIRST_FREE_PORT = 10_240;
export const LAST_FREE_PORT = 25_000;
let nextPort = randomInt(FIRST_FREE_PORT, LAST_FREE_PORT + 1);

/** A server that is started for tests or figures and ends with the process that started it. */
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
    // A process group of its own: it goes as a whole, and Ctrl-C in a terminal reaches the tests
    // first, which then still have their server.
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
   * Asks again and again until there is an answer.
   *
   * @param ask null: not yet
   * @throws where the server ended or never answered; the message has what it printed
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

  /** @param signal what this server takes as a request to end at once but in order */
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

/** A port that was free a moment ago, another one at each call. */
export async function freePort(host: string): Promise<number> {
  for (;;) {
    const port = nextPort;
    nextPort = port === LAST_FREE_PORT ? FIRST_FREE_PORT : port + 1;
    if (await isFree(port, host)) {
      return port;
    }
  }
}

/** Whether nobody listens at a port now. */
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
