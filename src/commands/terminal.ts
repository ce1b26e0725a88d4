import { once } from 'node:events';
import { OperatorError } from '../domain/errors.ts';
import type { Terminal } from './command.ts';

/** How often a line of progress is replaced in a terminal. */
const REDRAW_MS = 100;

/** How often a line of progress is written to a file or a pipe. */
const WRITE_EVERY_MS = 10_000;

/** Returns to the beginning of the line, and clears it. */
const CLEAR_LINE = '\r\u001b[K';

/** The width of a terminal that does not report its own. */
const USUAL_COLUMNS = 80;

/** The standard streams of this process. */
export class ProcessTerminal implements Terminal {
  readonly #streams: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>;
  readonly #monotonicMs: () => number;
  readonly #closed = new AbortController();
  #shownAtMs: number;
  #isDrawn = false;

  constructor(
    streams: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>,
    monotonicMs: () => number,
  ) {
    this.#streams = streams;
    this.#monotonicMs = monotonicMs;
    // A terminal shows the first line at once.
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
    const { stderr } = this.#streams;
    const nowMs = this.#monotonicMs();
    if (nowMs - this.#shownAtMs < (stderr.isTTY ? REDRAW_MS : WRITE_EVERY_MS)) {
      return;
    }
    this.#shownAtMs = nowMs;
    if (stderr.isTTY) {
      const columns = stderr.columns || USUAL_COLUMNS;
      stderr.write(`${CLEAR_LINE}${line.slice(0, columns - 1)}`);
      this.#isDrawn = true;
    } else {
      stderr.write(`${line}\n`);
    }
  }

  /** Clears the line of progress. */
  end(): void {
    if (this.#isDrawn) {
      this.#streams.stderr.write(CLEAR_LINE);
    }
  }
}
