import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** RFC 6455 section 5.2. */
export const OPCODES = { continuation: 0, text: 1, binary: 2, ping: 9, pong: 10 } as const;

/** A WebSocket client that does nothing by itself: it answers no ping and no goodbye. */
export class RawSocket {
  readonly connection: Socket;
  #received: Buffer = Buffer.alloc(0);

  private constructor(connection: Socket) {
    this.connection = connection;
    // A server that drops a connection resets it; tests wait for its end.
    connection.on('error', () => undefined);
    connection.on('data', (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
    });
  }

  /** Sends a handshake, or what is given in its place, and waits for nothing. */
  static async connect(base: string, handshake = upgradeRequest()): Promise<RawSocket> {
    const { hostname, port } = new URL(base);
    const connection = connect(Number(port), hostname);
    await once(connection, 'connect');
    connection.write(handshake);
    return new RawSocket(connection);
  }

  /** Everything that came, as text: the frames' heads are in it. */
  get received(): string {
    return this.#received.toString('latin1');
  }

  async receive(text: string): Promise<void> {
    while (!this.received.includes(text)) {
      await once(this.connection, 'data');
    }
  }

  /** Answers the challenge, and waits until that is accepted. */
  async signIn(authorization: string): Promise<void> {
    await this.receive('"challenge"');
    this.send(frame(JSON.stringify({ type: 'challenge-response', payload: authorization })));
    await this.receive('challenge-success');
  }

  /** Sends bytes. @returns whether more may follow at once */
  send(bytes: Buffer): boolean {
    return this.connection.write(bytes);
  }

  /** Resolves when the connection is gone, whoever ended it. */
  async gone(): Promise<void> {
    if (!this.connection.closed) {
      await new Promise((resolve) => this.connection.once('close', resolve));
    }
  }
}

export function upgradeRequest(headers: Record<string, string> = {}): string {
  const lines = Object.entries({
    host: 'localhost',
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': randomBytes(16).toString('base64'),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `GET /api/v2/ws/quote HTTP/1.1\r\n${lines.join('')}\r\n`;
}

/** One frame of up to 64 KiB as a client sends it, masked with zeros. */
export function frame(
  payload: string | Buffer,
  { opcode = OPCODES.text as number, isLast = true } = {},
): Buffer {
  const content = Buffer.from(payload);
  const head = Buffer.from([(isLast ? 0x80 : 0) | opcode, 0x80 | Math.min(content.length, 126)]);
  const length = Buffer.alloc(content.length < 126 ? 0 : 2);
  if (length.length > 0) {
    length.writeUInt16BE(content.length);
  }
  return Buffer.concat([head, length, Buffer.alloc(4), content]);
}
