import type { CommandIo } from '../../../src/operator/process-io.ts';

export class FakeTerminal implements CommandIo {
  output = '';
  readonly progressLines: string[] = [];
  readonly stdin: AsyncIterable<Uint8Array> | null;

  /** @param input the content of standard input; undefined if standard input is a keyboard */
  constructor(input?: string | AsyncIterable<Uint8Array>) {
    this.stdin = typeof input === 'string' ? streamText(input) : (input ?? null);
  }

  async write(text: string): Promise<void> {
    this.output += text;
  }

  reportProgress(line: string): void {
    this.progressLines.push(line);
  }
}

/** Yields chunks that end within lines and characters. */
async function* streamText(text: string): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text);
  for (let start = 0; start < bytes.length; start += CHUNK_BYTES) {
    yield bytes.subarray(start, start + CHUNK_BYTES);
  }
}

const CHUNK_BYTES = 61;
