import { once } from 'node:events';
import { OperatorError } from '../errors.ts';

/** What a command reads and writes, beside the result that it returns. */
export type CommandIo = Pick<ProcessIo, 'stdin' | 'signal' | 'write' | 'reportProgress'>;

const PROGRESS_INTERVAL_MS = 10_000;

export class ProcessIo {
  readonly #streams: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>;
  readonly #outputFailure = new AbortController();
  #lastProgressAtMs: number;

  constructor(streams: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>) {
    this.#streams = streams;
    // A terminal shows the first progress line immediately.
    this.#lastProgressAtMs = streams.stderr.isTTY ? -Infinity : performance.now();
    streams.stdout.on('error', (error: NodeJS.ErrnoException) => {
      const problem =
        error.code === 'EPIPE' ? 'was closed' : `could not be written (${error.message})`;
      const message = `Standard output ${problem} before the command finished.`;
      this.#outputFailure.abort(new OperatorError(message));
    });
  }

  /** Null if standard input is a terminal. */
  get stdin(): AsyncIterable<Uint8Array> | null {
    const { stdin } = this.#streams;
    return stdin.isTTY ? null : stdin;
  }

  /** Aborted when standard output is closed or its disk is full. */
  get signal(): AbortSignal {
    return this.#outputFailure.signal;
  }

  /** Resolves when standard output can take more. @throws the abort reason of `signal` */
  async write(text: string): Promise<void> {
    this.signal.throwIfAborted();
    if (!this.#streams.stdout.write(text)) {
      await once(this.#streams.stdout, 'drain', { signal: this.signal }).catch(() => {
        // `once` rejects with another error than the abort reason.
        this.signal.throwIfAborted();
      });
    }
  }

  /** Shows a line of progress, unless the last one is recent. */
  reportProgress(line: string): void {
    if (performance.now() - this.#lastProgressAtMs >= PROGRESS_INTERVAL_MS) {
      this.#lastProgressAtMs = performance.now();
      this.#streams.stderr.write(`${line}\n`);
    }
  }
}
