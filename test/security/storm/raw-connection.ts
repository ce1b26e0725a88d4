import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** An HTTP response as it came over the wire. */
export interface RawAnswer {
  status: number;
  /** Names in lower case; of a repeated header, the last value. */
  headers: ReadonlyMap<string, string>;
  body: string;
}

const HEAD_END = Buffer.from('\r\n\r\n');
const NO_CONTENT = 204;

/** A TCP connection that sends any bytes and parses what comes back as HTTP responses. */
export class RawConnection {
  readonly #socket: Socket;
  #received: Buffer = Buffer.alloc(0);
  #wake: (() => void) | null = null;

  /** @param localAddress the client's address, any of 127.0.0.0/8 */
  static async open(port: number, localAddress: string): Promise<RawConnection> {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    await once(socket, 'connect');
    return new RawConnection(socket);
  }

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#wake?.();
    });
    // The server may reset the connection at any moment; 'close' follows.
    socket.on('error', () => undefined);
    socket.on('close', () => this.#wake?.());
  }

  get isClosed(): boolean {
    return this.#socket.closed;
  }

  /** Whether bytes arrived that are not a whole response. */
  get hasRest(): boolean {
    return this.#received.length > 0;
  }

  write(bytes: Buffer): void {
    if (!this.isClosed) {
      this.#socket.write(bytes);
    }
  }

  /** Closes the sending half. */
  end(): void {
    this.#socket.end();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /**
   * Waits for the next whole response.
   *
   * @param isHead it answers a HEAD request, so it has no body
   * @throws Error if the bytes are not an HTTP response with a known length
   */
  async answer(isHead: boolean, timeoutMs: number): Promise<RawAnswer | 'closed' | 'silence'> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const answer = this.#takeAnswer(isHead);
      if (answer !== null) {
        return answer;
      }
      if (this.isClosed) {
        return 'closed';
      }
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) {
        return 'silence';
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, leftMs);
      this.#wake = resolve;
      await promise;
      clearTimeout(timer);
    }
  }

  #takeAnswer(isHead: boolean): RawAnswer | null {
    for (;;) {
      const headLength = this.#received.indexOf(HEAD_END);
      if (headLength < 0) {
        return null;
      }
      const head = parseHead(this.#received.subarray(0, headLength).toString('latin1'));
      const isBodiless = isHead || head.status < 200 || head.status === NO_CONTENT;
      const bodyLength = isBodiless ? 0 : Number(head.headers.get('content-length'));
      if (Number.isNaN(bodyLength)) {
        throw new Error(`a response ${head.status} without a length`);
      }
      const bodyStart = headLength + HEAD_END.length;
      if (this.#received.length < bodyStart + bodyLength) {
        return null;
      }
      const body = this.#received.subarray(bodyStart, bodyStart + bodyLength).toString('utf8');
      this.#received = this.#received.subarray(bodyStart + bodyLength);
      // Interim responses, such as 100 Continue, precede the final one.
      if (head.status >= 200) {
        return { ...head, body };
      }
    }
  }
}

function parseHead(head: string): Omit<RawAnswer, 'body'> {
  const [statusLine = '', ...lines] = head.split('\r\n');
  const status = /^HTTP\/1\.1 (\d{3})( |$)/.exec(statusLine)?.[1];
  if (status === undefined) {
    throw new Error(`not an HTTP response: ${JSON.stringify(statusLine.slice(0, 80))}`);
  }
  const headers = lines.map((line): [string, string] => {
    const [, name = '', value = ''] = /^([^:]*):\s*(.*)$/.exec(line) ?? [];
    return [name.toLowerCase(), value];
  });
  return { status: Number(status), headers: new Map(headers) };
}
