import type { CommandIo } from '../../src/operator/command.ts';

/** A terminal that captures output and has a fixed input. */
export class TestTerminal implements CommandIo {
  output = '';
  readonly progressLines: string[] = [];
  readonly stdin: AsyncIterable<Uint8Array> | null;
  readonly #abortController = new AbortController();

  /** @param input undefined: standard input is a keyboard */
  constructor(input?: string | AsyncIterable<Uint8Array>) {
    this.stdin = typeof input === 'string' ? singleChunk(input) : (input ?? null);
  }

  get signal(): AbortSignal {
    return this.#abortController.signal;
  }

  /** Simulates a closed terminal window. */
  abort(): void {
    this.#abortController.abort();
  }

  async write(text: string): Promise<void> {
    this.output += text;
  }

  reportProgress(line: string): void {
    this.progressLines.push(line);
  }
}

async function* singleChunk(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}
