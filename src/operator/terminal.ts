import { once } from 'node:events';
import { OperatorError } from '../errors.ts';
import type { Terminal } from './command.ts';

/** How often a line of progress is written. */
const PROGRESS_EVERY_MS = 10_000;

/** The standard streams of this process. */
export class ProcessTerminal implements Terminal {
  readonly #streams: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>;
  readonly #monotonicMs: () => number;
  readonly #closed = new AbortController();
  #shownAtMs: number;

  constructor(
    streams: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>,
    monotonicMs: () => number,
  ) {
    this.#streams = streams;
    this.#monotonicMs = monotonicMs;
    // A person who waits sees the first line at once.
    this.#shownAtMs = streams.stderr.isTTY ? -Infinity : monotonicMs();
    streams.stdout.on('error', () => {
      this.#closed.abort(new OperatorError('Standard output was closed before its end.'));
    });
  }

  get input(): AsyncIterable<Uint8Array> | null {
    const { stdin } = this.#streams;
    return stdin.isTTY ? null : stdin;
  }

  get signal(): AbortSignal {
    return this.#closed.signal;
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

  progress(line: string): void {
    const nowMs = this.#monotonicMs();
    if (nowMs - this.#shownAtMs >= PROGRESS_EVERY_MS) {
      this.#shownAtMs = nowMs;
      this.#streams.stderr.write(`${line}\n`);
    }
  }
}
