import { once } from 'node:events';
import { OperatorError } from '../errors.ts';
import { PROGRESS_INTERVAL_MS } from './limits.ts';

type StandardStreams = Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>;

export class ProcessIo {
  readonly #streams: StandardStreams;
  readonly #monotonicMs: () => number;
  readonly #closeController = new AbortController();
  #lastProgressAtMs: number;

  constructor(streams: StandardStreams, monotonicMs: () => number) {
    this.#streams = streams;
    this.#monotonicMs = monotonicMs;
    // A terminal shows the first progress line immediately.
    this.#lastProgressAtMs = streams.stderr.isTTY ? -Infinity : monotonicMs();
    streams.stdout.on('error', (error: NodeJS.ErrnoException) => {
      const problem =
        error.code === 'EPIPE' ? 'was closed' : `could not be written (${error.message})`;
      this.#closeController.abort(
        new OperatorError(`Standard output ${problem} before the command finished.`),
      );
    });
  }

  /** Null if standard input is a terminal. */
  get stdin(): AsyncIterable<Uint8Array> | null {
    const { stdin } = this.#streams;
    return stdin.isTTY ? null : stdin;
  }

  /** Aborted when standard output is closed or its disk is full. */
  get signal(): AbortSignal {
    return this.#closeController.signal;
  }

  /** Resolves when standard output can take more. @throws OperatorError if standard output was closed or its disk is full */
  async write(text: string): Promise<void> {
    this.signal.throwIfAborted();
    if (!this.#streams.stdout.write(text)) {
      await once(this.#streams.stdout, 'drain', { signal: this.signal }).catch(() => {
        this.signal.throwIfAborted();
      });
    }
  }

  /** Shows one line of progress. Drops lines that follow the last one too soon. @param line without a line break */
  reportProgress(line: string): void {
    const nowMs = this.#monotonicMs();
    if (nowMs - this.#lastProgressAtMs >= PROGRESS_INTERVAL_MS) {
      this.#lastProgressAtMs = nowMs;
      this.#streams.stderr.write(`${line}\n`);
    }
  }
}
