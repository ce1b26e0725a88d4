import { createCipheriv, createHmac } from 'node:crypto';
import type { Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { createSecureContext, TLSSocket } from 'node:tls';
import type { TlsIdentity } from './certificates.ts';

/** Messages that a server may send after the handshake. TLS libraries handle them without the application. */
export type HandshakeMessage = 'key update' | 'session ticket';

const CIPHER_SUITE = 'TLS_AES_128_GCM_SHA256';
const CIPHER = 'aes-128-gcm';
const KEY_BYTES = 16;
const IV_BYTES = 12;
const SECRET_BYTES = 32;
const TAG_BYTES = 16;

const RECORD_HEADER_BYTES = 5;
/** The last byte of a record's content (RFC 8446 section 5.4). */
const CONTENT_TYPES = { handshake: Buffer.of(22), data: Buffer.of(23) };

const MESSAGES: Record<
  HandshakeMessage,
  { bytes: Buffer; perRecord: number; recordsPerBurst: number; maxConnections: number }
> = {
  // RFC 8446 section 4.6.3. Each record has its own key, because the sender's key changes after the message. A record
  // costs the server more than the client, so only bursts block the client: 20,000 records take it 150 ms. More
  // connections would only share the processor of this process.
  'key update': {
    bytes: Buffer.from('1800000100', 'hex'),
    perRecord: 1,
    recordsPerBurst: 20_000,
    maxConnections: 8,
  },
  // RFC 8446 section 4.6.1, with a ticket of one byte. As many as fit into a record.
  'session ticket': {
    bytes: Buffer.from(`0400000e${'0000003c'}${'00000000'}${'00'}${'000174'}${'0000'}`, 'hex'),
    perRecord: 900,
    recordsPerBurst: 32,
    maxConnections: Infinity,
  },
};

/** Between two turns of the event loop, so that all connections get their share. */
const RECORDS_PER_TURN = 500;

/** The server's side of a TLS 1.3 connection that can send records of its own. */
export class FloodingTlsServer {
  static #floodedCount = 0;
  readonly tls: TLSSocket;
  readonly #connection: Socket;
  #secret: Buffer = Buffer.alloc(0);
  /** Number of the next record under the current key. */
  #sequenceNumber = 0;
  #phase: 'client hello' | 'server flight' | 'application' = 'client hello';

  constructor(connection: Socket, identity: TlsIdentity) {
    const [inner, outer] = duplexPair();
    this.#connection = connection;
    connection.on('data', (chunk: Buffer) => {
      this.#phase = this.#phase === 'server flight' ? 'application' : this.#phase;
      outer.write(chunk);
    });
    outer.on('data', (chunk: Buffer) => {
      this.#countRecords(chunk);
      connection.write(chunk);
    });
    this.tls = new TLSSocket(inner, {
      isServer: true,
      secureContext: createSecureContext({
        ...identity,
        ciphers: CIPHER_SUITE,
        minVersion: 'TLSv1.3',
      }),
    });
    this.tls.on('error', () => connection.destroy());
    this.tls.on('keylog', (line: Buffer) => {
      const [label, , secret = ''] = line.toString().trim().split(' ');
      if (label === 'SERVER_TRAFFIC_SECRET_0') {
        this.#secret = Buffer.from(secret, 'hex');
      }
    });
    connection.on('close', () => this.tls.destroy());
  }

  /**
   * Sends messages as fast as the client reads them, until it disconnects. `tls` must not be used afterwards.
   *
   * @param data sent after each record of messages, if any
   */
  async flood(message: HandshakeMessage, data: Buffer | null = null): Promise<void> {
    if (FloodingTlsServer.#floodedCount >= MESSAGES[message].maxConnections) {
      this.#connection.destroy();
      return;
    }
    FloodingTlsServer.#floodedCount += 1;
    while (!this.#connection.destroyed) {
      const burst = await this.#encryptBurst(message, data);
      if (!this.#connection.destroyed && !this.#connection.write(burst)) {
        await this.#waitForRead();
      }
    }
    FloodingTlsServer.#floodedCount -= 1;
  }

  /** Waits until the client has read, or is disconnected. */
  async #waitForRead(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#connection.once('drain', resolve).once('close', resolve);
    await promise;
    this.#connection.off('drain', resolve).off('close', resolve);
  }

  async #encryptBurst(message: HandshakeMessage, data: Buffer | null): Promise<Buffer> {
    const { bytes, perRecord, recordsPerBurst } = MESSAGES[message];
    const messages = Buffer.concat(new Array<Buffer>(perRecord).fill(bytes));
    const records: Buffer[] = [];
    while (records.length < recordsPerBurst && !this.#connection.destroyed) {
      records.push(this.#encrypt(messages, CONTENT_TYPES.handshake));
      if (data !== null) {
        records.push(this.#encrypt(data, CONTENT_TYPES.data));
      }
      if (message === 'key update') {
        this.#secret = expandLabel(this.#secret, 'traffic upd', SECRET_BYTES);
        this.#sequenceNumber = 0;
      }
      if (records.length % RECORDS_PER_TURN === 0) {
        await setImmediate();
      }
    }
    return Buffer.concat(records);
  }

  /** Encrypts a record (RFC 8446 section 5.2). */
  #encrypt(content: Buffer, type: Buffer): Buffer {
    const key = expandLabel(this.#secret, 'key', KEY_BYTES);
    const nonce = expandLabel(this.#secret, 'iv', IV_BYTES);
    const counterOffset = IV_BYTES - 4;
    const counter = nonce.readUInt32BE(counterOffset) ^ this.#sequenceNumber;
    nonce.writeUInt32BE(counter >>> 0, counterOffset);
    this.#sequenceNumber += 1;
    const header = Buffer.from('1703030000', 'hex');
    header.writeUInt16BE(content.length + type.length + TAG_BYTES, 3);
    const cipher = createCipheriv(CIPHER, key, nonce);
    cipher.setAAD(header);
    const encrypted = cipher.update(Buffer.concat([content, type]));
    return Buffer.concat([header, encrypted, cipher.final(), cipher.getAuthTag()]);
  }

  /** Counts the records that `tls` sends after the client's part of the handshake. */
  #countRecords(chunk: Buffer): void {
    if (this.#phase !== 'application') {
      this.#phase = 'server flight';
      return;
    }
    for (let offset = 0; offset < chunk.length; this.#sequenceNumber += 1) {
      offset += RECORD_HEADER_BYTES + chunk.readUInt16BE(offset + 3);
    }
  }
}

/** HKDF-Expand-Label (RFC 8446 section 7.1), for at most 32 bytes and without a context. */
function expandLabel(secret: Buffer, label: string, bytes: number): Buffer {
  const fullLabel = Buffer.from(`tls13 ${label}`);
  return createHmac('sha256', secret)
    .update(Buffer.concat([Buffer.of(0, bytes, fullLabel.length), fullLabel, Buffer.of(0, 1)]))
    .digest()
    .subarray(0, bytes);
}
