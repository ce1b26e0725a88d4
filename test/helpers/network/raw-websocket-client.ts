import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** Frame types (RFC 6455 section 5.2). */
export const WS_OPCODES = { continuation: 0, text: 1, binary: 2, ping: 9, pong: 10 } as const;

/** A client of the quote WebSocket that handles raw bytes. It does not respond to pings and close frames. */
export class RawWebSocket {
  readonly connection: Socket;
  #received: Buffer = Buffer.alloc(0);

  private constructor(connection: Socket) {
    this.connection = connection;
    // The server may reset the connection. Tests wait for the close event instead of the error.
    connection.on('error', () => undefined);
    connection.on('data', (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
    });
  }

  static async connect(
    origin: string,
    handshake = buildQuoteSocketHandshake(),
  ): Promise<RawWebSocket> {
    const { hostname, port } = new URL(origin);
    const connection = connect(Number(port), hostname);
    await once(connection, 'connect');
    connection.write(handshake);
    return new RawWebSocket(connection);
  }

  get received(): string {
    return this.#received.toString('latin1');
  }

  async waitForText(text: string): Promise<void> {
    while (!this.received.includes(text)) {
      await once(this.connection, 'data');
    }
  }

  async authenticate(authorization: string): Promise<void> {
    await this.waitForText('"challenge"');
    this.send(encodeFrame(JSON.stringify({ type: 'challenge-response', payload: authorization })));
    await this.waitForText('challenge-success');
  }

  send(bytes: Buffer): boolean {
    return this.connection.write(bytes);
  }

  async waitForClose(): Promise<void> {
    if (!this.connection.closed) {
      await new Promise((resolve) => this.connection.once('close', resolve));
    }
  }
}

export function buildQuoteSocketHandshake(headers: Record<string, string> = {}): string {
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

/** Encodes a WebSocket frame as a client does. The payload can have up to 64 KiB, and the masking key is zero. */
export function encodeFrame(
  payload: string | Buffer,
  { opcode = WS_OPCODES.text as number } = {},
): Buffer {
  const payloadBytes = Buffer.from(payload);
  const { length } = payloadBytes;
  const header = Buffer.from([0x80 | opcode, 0x80 | Math.min(length, 126)]);
  // A length of 126 or more does not fit into the header, so it follows as a 16-bit number.
  const extendedLength = Buffer.alloc(length < 126 ? 0 : 2);
  if (extendedLength.length > 0) {
    extendedLength.writeUInt16BE(length);
  }
  const maskingKey = Buffer.alloc(4);
  return Buffer.concat([header, extendedLength, maskingKey, payloadBytes]);
}
