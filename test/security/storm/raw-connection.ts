import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** An HTTP answer as it came over the wire. */
export interface RawAnswer {
  status: number;
  /** Names in lower case; of one that came twice, the last. */
  headers: ReadonlyMap<string, string>;
  body: string;
}

/** How waiting for more ended. */
export type Waited = 'data' | 'closed' | 'silence';

const HEAD_END = Buffer.from('\r\n\r\n');
const SWITCHING_PROTOCOLS = 101;
const NO_CONTENT = 204;

/** A TCP connection on which anything can be said, and what comes back is read as HTTP or as bytes. */
export class RawConnection {
  readonly #socket: Socket;
  #received: Buffer = Buffer.alloc(0);
  #isClosed = false;
  #wake: (() => void) | null = null;

  /** @param localAddress whom the server takes us for: any address of 127.0.0.0/8 */
  static async open(port: number, localAddress: string): Promise<RawConnection> {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    await once(socket, 'connect');
    return new RawConnection(socket);
  }

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay();
    socket.on('data', (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#wake?.();
    });
    // A server may hang up at any moment; 'close' follows.
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.#isClosed = true;
      this.#wake?.();
    });
  }

  /** Whether it has ended, from either side. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** What came and was not taken. */
  get received(): Buffer {
    return this.#received;
  }

  write(bytes: Buffer): void {
    if (!this.#isClosed) {
      this.#socket.write(bytes);
    }
  }

  /** Says that nothing more comes, and still listens. */
  end(): void {
    this.#socket.end();
  }

  /** Hangs up without a word. */
  destroy(): void {
    this.#socket.destroy();
  }

  /** Waits until something comes, or nothing more will. */
  async more(timeoutMs: number): Promise<Waited> {
    if (this.#isClosed) {
      return 'closed';
    }
    const { promise, resolve } = Promise.withResolvers<Waited>();
    const timer = setTimeout(() => resolve('silence'), timeoutMs);
    this.#wake = () => resolve(this.#isClosed ? 'closed' : 'data');
    const waited = await promise;
    this.#wake = null;
    clearTimeout(timer);
    return waited;
  }

  /** Takes so many bytes from what came. */
  take(length: number): Buffer {
    const taken = this.#received.subarray(0, length);
    this.#received = this.#received.subarray(length);
    return taken;
  }

  /**
   * Takes the next whole answer, or null where it has not come yet.
   *
   * @param isHead it answers a HEAD, and has no body whatever its length says
   * @throws Error where what came is no HTTP answer, or one whose end cannot be told
   */
  takeAnswer(isHead: boolean): RawAnswer | null {
    for (;;) {
      const headLength = this.#received.indexOf(HEAD_END);
      if (headLength < 0) {
        return null;
      }
      const answer = parseHead(this.#received.subarray(0, headLength).toString('latin1'));
      const isInterim = answer.status < 200 && answer.status !== SWITCHING_PROTOCOLS;
      const isBodiless = isHead || answer.status < 200 || answer.status === NO_CONTENT;
      const bodyLength = isBodiless ? 0 : Number(answer.headers.get('content-length'));
      if (Number.isNaN(bodyLength)) {
        throw new Error(`an answer ${answer.status} without a length`);
      }
      const bodyStart = headLength + HEAD_END.length;
      if (this.#received.length < bodyStart + bodyLength) {
        return null;
      }
      this.take(bodyStart);
      const body = this.take(bodyLength).toString('utf8');
      if (!isInterim) {
        return { ...answer, body };
      }
    }
  }
}

function parseHead(head: string): Omit<RawAnswer, 'body'> {
  const [statusLine = '', ...lines] = head.split('\r\n');
  const status = /^HTTP\/1\.1 (\d{3})( |$)/.exec(statusLine)?.[1];
  if (status === undefined) {
    throw new Error(`no HTTP answer: ${JSON.stringify(statusLine.slice(0, 80))}`);
  }
  const headers = lines.map((line): [string, string] => {
    const [, name = '', value = ''] = /^([^:]*):\s*(.*)$/.exec(line) ?? [];
    return [name.toLowerCase(), value];
  });
  return { status: Number(status), headers: new Map(headers) };
}
