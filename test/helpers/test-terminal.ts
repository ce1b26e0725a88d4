import type { Terminal } from '../../src/operator/command.ts';

/** A terminal that remembers what was said, and has been given all that there is to read. */
export class TestTerminal implements Terminal {
  written = '';
  readonly told: string[] = [];
  readonly input: AsyncIterable<Uint8Array> | null;
  readonly #leaving = new AbortController();

  /** @param input absent: it is a keyboard */
  constructor(input?: string | AsyncIterable<Uint8Array>) {
    this.input = typeof input === 'string' ? inOneChunk(input) : (input ?? null);
  }

  get signal(): AbortSignal {
    return this.#leaving.signal;
  }

  /** As when its window is closed. */
  leave(): void {
    this.#leaving.abort();
  }

  async write(text: string): Promise<void> {
    this.written += text;
  }

  progress(line: string): void {
    this.told.push(line);
  }
}

async function* inOneChunk(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}
