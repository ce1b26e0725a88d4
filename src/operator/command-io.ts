import { once } from 'node:events';
import { OperatorError } from '../errors.ts';
import type { CommandIo } from './command.ts';

const PROGRESS_INTERVAL_MS = 10_000;

/** The standard streams of this process. */
export class ProcessIo implements CommandIo {
  readonly #streams: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>;
  readonly #monotonicMs: () => number;
  readonly #stdoutClosed = new AbortController();
  #lastProgressAtMs: number;

  constructor(
    streams: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>,
    monotonicMs: () => number,
  ) {
    this.#streams = streams;
    this.#monotonicMs = monotonicMs;
    // On a terminal, show the first line immediately.
    this.#lastProgressAtMs = streams.stderr.isTTY ? -Infinity : monotonicMs();
    streams.stdout.on('error', () => {
      this.#stdoutClosed.abort(
        new OperatorError('Standard output was closed before the command finished.'),
      );
    });
  }

  get stdin(): AsyncIterable<Uint8Array> | null {
    const { stdin } = this.#streams;
    return stdin.isTTY ? null : stdin;
  }

  get signal(): AbortSignal {
    return this.#stdoutClosed.signal;
  }

  /** @throws OperatorError if standard output was closed */
  async write(text: string): Promise<void> {
    this.signal.throwIfAborted();
    if (!this.#streams.stdout.write(text)) {
      await once(this.#streams.stdout, 'drain', { signal: this.signal }).catch(() => {
        this.signal.throwIfAborted();
      });
    }
  }

  reportProgress(line: string): void {
    const nowMs = this.#monotonicMs();
    if (nowMs - this.#lastProgressAtMs >= PROGRESS_INTERVAL_MS) {
      this.#lastProgressAtMs = nowMs;
      this.#streams.stderr.write(`${line}\n`);
    }
  }
}
