import { type ChildProcess, spawn } from 'node:child_process';
import { on, once } from 'node:events';
import { createInterface, type Interface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** Node, a database embedded in it, and a busy machine: far more than any start takes. */
const PATIENCE_MS = 30_000;

/** A process that takes longer to end is killed. */
const STOP_TIMEOUT_MS = 10_000;

const ATTACH = import.meta.resolve('./attach.js');

const running = new Set<NodeProcess>();
let isInterrupted = false;

/** Ends every process of the benchmark; whatever waits for one of them fails, and cleans up. */
export function interrupt(): void {
  isInterrupted = true;
  for (const each of running) {
    each.end();
  }
}

/** Whether {@link interrupt} was called: a failure after it is no news. */
export function wasInterrupted(): boolean {
  return isInterrupted;
}

/**
 * A program of a benchmark in a process of its own. It speaks by lines of JSON on its standard
 * output, and ends with the benchmark at the latest.
 */
export class NodeProcess implements AsyncDisposable {
  readonly #name: string;
  readonly #child: ChildProcess;
  readonly #reader: Interface;
  readonly #lines: AsyncIterator<string[]>;
  readonly #ended = new AbortController();

  /**
   * Starts a program.
   *
   * @param program a `file:` url
   * @param options.env all of its environment but for PATH, and TMPDIR where that is set
   * @param options.input becomes its standard input, as JSON
   */
  constructor(
    name: string,
    program: string,
    options: { env?: Record<string, string>; input?: unknown } = {},
  ) {
    if (isInterrupted) {
      throw new Error('interrupted');
    }
    this.#name = name;
    this.#child = spawn(process.execPath, ['--import', ATTACH, fileURLToPath(program)], {
      env: { PATH: process.env['PATH'], TMPDIR: process.env['TMPDIR'], ...options.env },
      stdio: ['pipe', 'pipe', 'inherit', 'ipc'],
    });
    running.add(this);
    this.#child.once('exit', () => {
      running.delete(this);
      this.#ended.abort();
    });
    const { stdin, stdout } = this.#child;
    if (stdin === null || stdout === null) {
      throw new Error('a piped process has its streams');
    }
    stdin.end(JSON.stringify(options.input ?? null));
    this.#reader = createInterface({ input: stdout });
    this.#lines = on(this.#reader, 'line', { close: ['close'] }) as AsyncIterator<string[]>;
  }

  /**
   * The next message, once it is there.
   *
   * @param workMs how long it has to work before it can have one
   * @throws where the process ended without another one or let us wait for too long
   */
  async next<Message>(workMs = 0): Promise<Message> {
    const timer = setTimeout(() => this.#kill(), workMs + PATIENCE_MS);
    const { value, done } = await this.#lines.next();
    clearTimeout(timer);
    if (done === true) {
      throw new Error(`${this.#name} ended, or was killed for its silence`);
    }
    return JSON.parse((value as string[])[0] ?? '') as Message;
  }

  /** Takes what it says from now on without a look, as a log that is piped to nowhere: lines take us time to read. */
  ignore(): void {
    this.#reader.close();
    this.#child.stdout?.resume();
  }

  /** Says something to it; what it makes of that is its own. */
  tell(message: string): void {
    this.#child.send(message);
  }

  /** Of the system; it has one, as it was started. */
  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** CPU time until now, of all threads, in milliseconds. */
  async cpuMs(): Promise<number> {
    const usage = await this.#ask<NodeJS.CpuUsage>('cpu');
    return (usage.user + usage.system) / 1000;
  }

  /** Its heap in use, in megabytes, after a collection of garbage: that takes it a moment. */
  async heapMb(): Promise<number> {
    return (await this.#ask<number>('heap')) / 1024 / 1024;
  }

  /** Asks it to end, as it would with the benchmark. */
  end(): void {
    if (this.#child.connected) {
      this.#child.disconnect();
    }
  }

  /** Asks it to end, and waits until it has. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!running.has(this)) {
      return;
    }
    const gone = once(this.#child, 'exit');
    const timer = setTimeout(() => this.#kill(), STOP_TIMEOUT_MS);
    this.end();
    await gone;
    clearTimeout(timer);
  }

  async #ask<Answer>(question: 'cpu' | 'heap'): Promise<Answer> {
    this.#child.send(question);
    const answer = once(this.#child, 'message', { signal: this.#ended.signal });
    return ((await answer) as [Answer])[0];
  }

  #kill(): void {
    this.#child.kill('SIGKILL');
  }
}
