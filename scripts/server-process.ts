import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** Servers start in about three seconds. On a busy machine, they take much longer. */
const START_TIMEOUT_MS = 60_000;

/** After this time, a server that does not exit is killed. */
const STOP_TIMEOUT_MS = 10_000;

const READINESS_CHECK_INTERVAL_MS = 50;

/** The error message after a failed start contains at most this much of the server's output. */
const MAX_OUTPUT_CHARACTERS = 20_000;

/**
 * The test ports are below the range from which Linux assigns ports by default. A port that is free therefore stays
 * free until the test uses it.
 */
const MIN_TEST_PORT = 10_240;
export const MAX_TEST_PORT = 25_000;
let nextPort = randomInt(MIN_TEST_PORT, MAX_TEST_PORT + 1);

const exitCallbacks = new Set<() => void>();
process.on('exit', () => {
  for (const callback of exitCallbacks) {
    callback();
  }
});

/** Calls a function when this process exits. @returns a function that undoes this */
export function callOnExit(callback: () => void): () => void {
  exitCallbacks.add(callback);
  return () => exitCallbacks.delete(callback);
}

/** A server process for tests or benchmarks. It is killed when this process exits. */
export class ServerProcess {
  readonly #name: string;
  readonly #child: ChildProcess;
  readonly #stopKillingOnExit: () => void;
  #output = '';

  /** @param name the server's name in error messages */
  constructor(
    name: string,
    command: string,
    args: readonly string[],
    options: { cwd: string; env?: NodeJS.ProcessEnv; uid?: number; gid?: number },
  ) {
    this.#name = name;
    // The server gets its own process group. It does not receive Ctrl-C, and is killed together with its children.
    this.#child = spawn(command, args, {
      ...options,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child.stdout?.on('data', this.#appendOutput);
    this.#child.stderr?.on('data', this.#appendOutput);
    this.#child.on('error', (error) => this.#appendOutput(error.message));
    this.#stopKillingOnExit = callOnExit(this.#kill);
  }

  /** @throws Error if the program could not be started */
  get pid(): number {
    const { pid } = this.#child;
    if (pid === undefined) {
      throw new Error(`${this.#name} did not start:\n${this.#output}`);
    }
    return pid;
  }

  /** The end of what the server has printed. */
  get output(): string {
    return this.#output;
  }

  /**
   * Calls `checkReady` repeatedly until the server is ready.
   *
   * @param checkReady returns null if the server is not ready yet
   * @returns the result of `checkReady`
   * @throws Error with the server's output if it exits or is not ready after a minute
   */
  async waitUntilReady<T>(checkReady: () => Promise<T | null>): Promise<T> {
    const deadlineMs = performance.now() + START_TIMEOUT_MS;
    while (this.#isRunning() && performance.now() < deadlineMs) {
      const result = await checkReady();
      if (result !== null) {
        return result;
      }
      await delay(READINESS_CHECK_INTERVAL_MS);
    }
    throw new Error(`${this.#name} did not start:\n${this.#output}`);
  }

  /**
   * Stops the server. Kills it if it does not exit after {@link STOP_TIMEOUT_MS}.
   *
   * @param signal the signal with which this server shuts down cleanly without waiting for clients
   */
  async stop(signal: NodeJS.Signals): Promise<void> {
    this.#stopKillingOnExit();
    if (!this.#isRunning()) {
      return;
    }
    const exited = once(this.#child, 'exit');
    this.#child.kill(signal);
    const killTimer = setTimeout(this.#kill, STOP_TIMEOUT_MS);
    await exited;
    clearTimeout(killTimer);
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

/** Returns a free port. Each call returns a different port. */
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
  const server = createServer().listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') {
      return false;
    }
    throw error;
  }
  server.close();
  await once(server, 'close');
  return true;
}
