import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { CommandResult, Terminal } from './command.ts';
import type { SpokenLine } from './control-protocol.ts';
import { Spool } from './spool.ts';

/** Who gave a command through the control socket: what it says travels there, line by line. */
export class Caller implements Terminal {
  readonly input = null;
  readonly #response: ServerResponse;
  readonly #spool: Spool;
  readonly #leaving = new AbortController();

  /** @param dataDir where what the command writes waits for who reads it, until {@link end} */
  constructor(response: ServerResponse, dataDir: string) {
    this.#response = response;
    this.#spool = new Spool(dataDir);
    response.setHeader('content-type', 'application/x-ndjson');
    response.on('close', () => this.#leaving.abort());
  }

  get signal(): AbortSignal {
    return this.#leaving.signal;
  }

  async write(text: string): Promise<void> {
    this.signal.throwIfAborted();
    await this.#spool.write(text);
  }

  progress(line: string): void {
    if (!this.#response.writableNeedDrain) {
      this.#response.write(lineOf({ progress: line }));
    }
  }

  /** Hands over what the command wrote, and then its result. */
  async end(result: CommandResult): Promise<void> {
    for await (const text of this.#spool.read()) {
      await this.#send({ write: text });
    }
    await this.#send({ result });
    this.#response.end();
  }

  async close(): Promise<void> {
    await this.#spool.close();
  }

  async #send(spoken: SpokenLine): Promise<void> {
    this.signal.throwIfAborted();
    if (!this.#response.write(lineOf(spoken))) {
      await once(this.#response, 'drain', { signal: this.signal });
    }
  }
}

function lineOf(spoken: SpokenLine): string {
  return `${JSON.stringify(spoken)}\n`;
}
