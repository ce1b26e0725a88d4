import { once } from 'node:events';

/** What a command reads and writes, beside the result that it returns. */
export type CommandIo = Pick<ProcessIo, 'stdin' | 'write' | 'reportProgress'>;

const PROGRESS_INTERVAL_MS = 10_000;

export class ProcessIo {
  readonly #streams: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>;
  #lastProgressAtMs: number;

  constructor(streams: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>) {
    this.#streams = streams;
    // A terminal shows the first progress line immediately.
    this.#lastProgressAtMs = streams.stderr.isTTY ? -Infinity : performance.now();
  }

  /** Null if standard input is a terminal. */
  get stdin(): AsyncIterable<Uint8Array> | null {
    const { stdin } = this.#streams;
    return stdin.isTTY ? null : stdin;
  }

  /** Resolves when standard output can take more. */
  async write(text: string): Promise<void> {
    if (!this.#streams.stdout.write(text)) {
      await once(this.#streams.stdout, 'drain');
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
