import { once } from 'node:events';
import { OperatorError } from '../domain/errors.ts';
import type { Terminal } from './command.ts';

/** How often a person sees something new. */
const REDRAW_MS = 100;

/** In a log, or to a program, a line so often shows that it goes on. */
const TELL_EVERY_MS = 10_000;

/** Back to the beginning of the line, and away with what stood there. */
const CLEAR_LINE = '\r\u001b[K';

/** Where a terminal does not say how wide it is. */
const USUAL_COLUMNS = 80;

/** The terminal of this process: its standard streams. */
export class ProcessTerminal implements Terminal {
  readonly #streams: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>;
  readonly #monotonicMs: () => number;
  readonly #leaving = new AbortController();
  #toldAtMs: number;
  #isDrawn = false;

  constructor(
    streams: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>,
    monotonicMs: () => number,
  ) {
    this.#streams = streams;
    this.#monotonicMs = monotonicMs;
    this.#toldAtMs = monotonicMs();
    streams.stdout.on('error', () => {
      this.#leaving.abort(new OperatorError('Standard output was closed before its end.'));
    });
  }

  get input(): AsyncIterable<Uint8Array> | null {
    const { stdin } = this.#streams;
    return stdin.isTTY ? null : stdin;
  }

  get signal(): AbortSignal {
    return this.#leaving.signal;
  }

  /** @throws OperatorError where nobody reads standard output any more */
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
    if (nowMs - this.#toldAtMs < (stderr.isTTY ? REDRAW_MS : TELL_EVERY_MS)) {
      return;
    }
    this.#toldAtMs = nowMs;
    if (stderr.isTTY) {
      const columns = stderr.columns || USUAL_COLUMNS;
      stderr.write(`${CLEAR_LINE}${line.slice(0, columns - 1)}`);
      this.#isDrawn = true;
    } else {
      stderr.write(`${line}\n`);
    }
  }

  /** Takes away what {@link progress} drew: what is said at the end is said in its place. */
  end(): void {
    if (this.#isDrawn) {
      this.#streams.stderr.write(CLEAR_LINE);
    }
  }
}
