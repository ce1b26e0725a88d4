import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** A server starts in about three seconds, but much more slowly on a busy machine. */
const START_TIMEOUT_MS = 60_000;

/** A server that takes longer to stop is killed. */
const STOP_TIMEOUT_MS = 10_000;

const POLL_INTERVAL_MS = 50;

/** Length of the output in the error message after a failed start. */
const MAX_OUTPUT_CHARACTERS = 20_000;

/** Below Linux's default ephemeral range, so that the system does not assign a free port to another program. */
const MIN_TEST_PORT = 10_240;
export const MAX_TEST_PORT = 25_000;
let nextPort = randomInt(MIN_TEST_PORT, MAX_TEST_PORT + 1);

/** A server process for tests or benchmarks. It is killed when this process exits. */
export class ServerProcess {
  readonly #name: string;
  readonly #child: ChildProcess;
  #output = '';

  /** @param name for error messages */
  constructor(
    name: string,
    command: string,
    args: readonly string[],
    options: { cwd: string; env?: NodeJS.ProcessEnv; uid?: number; gid?: number },
  ) {
    this.#name = name;
    // A new process group can be killed as a whole, and does not receive Ctrl-C.
    this.#child = spawn(command, args, {
      ...options,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child.stdout?.on('data', this.#appendOutput);
    this.#child.stderr?.on('data', this.#appendOutput);
    this.#child.on('error', (error) => this.#appendOutput(error.message));
    process.once('exit', this.#kill);
  }

  /**
   * Calls `probe` repeatedly until it returns a value.
   *
   * @param probe returns null if the server is not ready yet
   * @throws Error with the server's output if it exits or is not ready in time
   */
  async waitUntilReady<T>(probe: () => Promise<T | null>): Promise<T> {
    const deadline = Date.now() + START_TIMEOUT_MS;
    while (this.#isRunning() && Date.now() < deadline) {
      const result = await probe();
      if (result !== null) {
        return result;
      }
      await delay(POLL_INTERVAL_MS);
    }
    throw new Error(`${this.#name} did not start:\n${this.#output}`);
  }

  /** @param signal makes the server shut down cleanly without waiting for clients */
  async stop(signal: NodeJS.Signals): Promise<void> {
    process.removeListener('exit', this.#kill);
    if (!this.#isRunning()) {
      return;
    }
    const exited = once(this.#child, 'exit');
    this.#child.kill(signal);
    const timer = setTimeout(this.#kill, STOP_TIMEOUT_MS);
    await exited;
    clearTimeout(timer);
  }

  readonly #kill = () => {
    if (this.#child.pid !== undefined && this.#isRunning()) {
      process.kill(-this.#child.pid, 'SIGKILL');
    }
  };

  readonly #appendOutput = (chunk: Buffer | string) => {
    this.#output = (this.#output + chunk.toString()).slice(-MAX_OUTPUT_CHARACTERS);
  };

  #isRunning(): boolean {
    const { pid, exitCode, signalCode } = this.#child;
    return pid !== undefined && exitCode === null && signalCode === null;
  }
}

/** Returns a free port, a different one for each call. */
export async function findFreePort(host: string): Promise<number> {
  for (;;) {
    const port = nextPort;
    nextPort = port === MAX_TEST_PORT ? MIN_TEST_PORT : port + 1;
    if (await isPortFree(port, host)) {
      return port;
    }
  }
}

export async function isPortFree(port: number, host: string): Promise<boolean> {
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
