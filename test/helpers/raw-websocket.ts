import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** RFC 6455 section 5.2. */
export const OPCODES = { continuation: 0, text: 1, binary: 2, ping: 9, pong: 10 } as const;

/** A WebSocket client that responds to no ping and no close frame. */
export class RawWebSocket {
  readonly connection: Socket;
  #received: Buffer = Buffer.alloc(0);

  private constructor(connection: Socket) {
    this.connection = connection;
    // A server that drops a connection resets it; tests wait for the close event.
    connection.on('error', () => undefined);
    connection.on('data', (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
    });
  }

  /** Sends a handshake, or other bytes instead, without waiting. */
  static async connect(base: string, handshake = buildUpgradeRequest()): Promise<RawWebSocket> {
    const { hostname, port } = new URL(base);
    const connection = connect(Number(port), hostname);
    await once(connection, 'connect');
    connection.write(handshake);
    return new RawWebSocket(connection);
  }

  /** Everything received, as text, including frame headers. */
  get received(): string {
    return this.#received.toString('latin1');
  }

  async waitForText(text: string): Promise<void> {
    while (!this.received.includes(text)) {
      await once(this.connection, 'data');
    }
  }

  /** Responds to the challenge and waits until the response is accepted. */
  async authenticate(authorization: string): Promise<void> {
    await this.waitForText('"challenge"');
    this.send(encodeFrame(JSON.stringify({ type: 'challenge-response', payload: authorization })));
    await this.waitForText('challenge-success');
  }

  /** Sends bytes. @returns false if the send buffer is full */
  send(bytes: Buffer): boolean {
    return this.connection.write(bytes);
  }

  /** Resolves when either side has closed the connection. */
  async waitForClose(): Promise<void> {
    if (!this.connection.closed) {
      await new Promise((resolve) => this.connection.once('close', resolve));
    }
  }
}

export function buildUpgradeRequest(headers: Record<string, string> = {}): string {
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

/** Returns a client frame of up to 64 KiB, masked with zeros. */
export function encodeFrame(
  payload: string | Buffer,
  { opcode = OPCODES.text as number, isLast: isFinal = true } = {},
): Buffer {
  const content = Buffer.from(payload);
  const head = Buffer.from([(isFinal ? 0x80 : 0) | opcode, 0x80 | Math.min(content.length, 126)]);
  const length = Buffer.alloc(content.length < 126 ? 0 : 2);
  if (length.length > 0) {
    length.writeUInt16BE(content.length);
  }
  return Buffer.concat([head, length, Buffer.alloc(4), content]);
}
