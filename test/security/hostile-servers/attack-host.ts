import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { createServer, type Socket } from 'node:net';
import { createSecureContext, TLSSocket } from 'node:tls';
import { createMintServer } from '../../../demo/test-mint/http-server.ts';
import { createState } from '../../../demo/test-mint/state.ts';
import { DEFAULT_TEST_MINT_SWITCHES } from '../../../demo/test-mint/switches.ts';
import { TestMintWebSocketServer } from '../../../demo/test-mint/websocket-server.ts';
import { flood } from '../../helpers/mints/fake-hostile-mint.ts';
import { forgeCertificateChain, type TlsIdentity } from './certificates.ts';
import { HTTP_FLOODS, type HttpFlood } from './http-floods.ts';
import { createHugeDiffieHellmanServer } from './tls12-handshake.ts';
import { FloodingTlsServer, type HandshakeMessage } from './tls13-message-flood.ts';

export type HostAttack =
  | 'Diffie-Hellman'
  | 'certificate chains'
  | 'simultaneous handshakes'
  | HandshakeMessage
  | 'session ticket and data'
  | HttpFlood;

type ConnectionHandler = (connection: Socket) => void;

/** RFC 6455 section 1.3. */
const WEBSOCKET_GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

const FILLING_BYTES = 8_192;
/** A text message of that length. */
const TEXT_FRAME_HEADER = Buffer.of(0x81, 126, FILLING_BYTES >> 8, FILLING_BYTES & 0xff);

/** The longest chain that OpenSSL accepts. */
const LONG_CHAIN = 23;

/** Has 30 kB. A client could refuse longer ones, because chains on the web have up to 10 kB. */
const SHORT_CHAIN = 7;

/** Below the connect timeout of the service. */
const HOLD_MS = 4_000;

/**
 * A host that is an honest mint under each path of one number (`/1`), until it attacks all clients that connect. It
 * listens on all addresses.
 */
export class AttackHost {
  /** Of the last attack. Includes what the system has buffered for the client. */
  readonly report = { connections: 0, maxBytesPerConnection: 0 };
  readonly #connections = new Set<Socket>();
  readonly #attack: ConnectionHandler;
  readonly #beHonest: ConnectionHandler;
  #isAttacking = false;

  static async start(port: number, identity: TlsIdentity, attack: HostAttack): Promise<AttackHost> {
    const host = new AttackHost(identity, attack);
    const server = createServer((connection) => host.#handleConnection(connection));
    await once(server.listen(port, '0.0.0.0'), 'listening');
    return host;
  }

  private constructor(identity: TlsIdentity, attack: HostAttack) {
    this.#attack = createAttack(attack, identity);
    this.#beHonest = createHonestMint(identity);
  }

  /** Closes all connections. The report continues until the next attack. */
  setAttacking(isAttacking: boolean): void {
    this.#isAttacking = isAttacking;
    if (isAttacking) {
      Object.assign(this.report, { connections: 0, maxBytesPerConnection: 0 });
    }
    for (const connection of this.#connections) {
      this.#countBytes(connection);
      connection.destroy();
    }
    this.#connections.clear();
  }

  #handleConnection(connection: Socket): void {
    this.#connections.add(connection);
    connection.on('error', () => undefined);
    connection.once('close', () => this.#connections.delete(connection));
    if (this.#isAttacking) {
      this.report.connections += 1;
      connection.once('close', () => this.#countBytes(connection));
      this.#attack(connection);
    } else {
      this.#beHonest(connection);
    }
  }

  #countBytes({ bytesWritten }: Socket): void {
    this.report.maxBytesPerConnection = Math.max(this.report.maxBytesPerConnection, bytesWritten);
  }
}

function createHonestMint(identity: TlsIdentity): ConnectionHandler {
  const state = createState(DEFAULT_TEST_MINT_SWITCHES, {});
  const mint = createMintServer(state);
  new TestMintWebSocketServer(state, mint);
  const server = createHttpsServer(identity);
  for (const event of ['request', 'upgrade']) {
    server.on(event, (request: IncomingMessage, ...others) => {
      request.url = request.url?.replace(/^\/\d+/, '');
      mint.emit(event, request, ...others);
    });
  }
  return (connection) => server.emit('connection', connection);
}

function createAttack(attack: HostAttack, identity: TlsIdentity): ConnectionHandler {
  switch (attack) {
    case 'Diffie-Hellman':
      return createHugeDiffieHellmanServer();
    case 'certificate chains':
      return createTlsServer(forgeCertificateChain(LONG_CHAIN), () => undefined);
    case 'simultaneous handshakes':
      return holdConnections(createTlsServer(forgeCertificateChain(SHORT_CHAIN), () => undefined));
    case 'key update':
    case 'session ticket':
      return createMessageFlood(identity, attack, { hasData: false });
    case 'session ticket and data':
      return createMessageFlood(identity, 'session ticket', { hasData: true });
    default: {
      const [start, repeated] = HTTP_FLOODS[attack];
      return createTlsServer(identity, (tls) => {
        tls.once('data', () => {
          tls.write(start);
          flood(tls, repeated);
        });
      });
    }
  }
}

function createTlsServer(
  identity: TlsIdentity,
  handle: (tls: TLSSocket) => void,
): ConnectionHandler {
  const secureContext = createSecureContext(identity);
  return (connection) => {
    const tls = new TLSSocket(connection, { isServer: true, secureContext });
    tls.on('error', () => connection.destroy());
    handle(tls);
  };
}

/** Lets all connections continue at the same time, so that the work of one client adds up. */
function holdConnections(handle: ConnectionHandler): ConnectionHandler {
  let held: Socket[] = [];
  setInterval(() => {
    held.forEach(handle);
    held = [];
  }, HOLD_MS);
  return (connection) => held.push(connection);
}

function createMessageFlood(
  identity: TlsIdentity,
  message: HandshakeMessage,
  { hasData }: { hasData: boolean },
): ConnectionHandler {
  return (connection) => {
    const server = new FloodingTlsServer(connection, identity);
    server.tls.once('data', (request: Buffer) => {
      const { head, data } = startResponse(request.toString());
      server.tls.write(head, () => void server.flood(message, hasData ? data : null));
    });
  };
}

/** Accepts a WebSocket or a request. @returns the first part of the response, and a part that can follow repeatedly */
function startResponse(request: string): { head: string; data: Buffer } {
  const filling = ' '.repeat(FILLING_BYTES);
  const key = /^sec-websocket-key: *(\S+)/im.exec(request)?.[1];
  if (key === undefined) {
    const head = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
    return { head, data: Buffer.from(`${FILLING_BYTES.toString(16)}\r\n${filling}\r\n`) };
  }
  const accept = createHash('sha1')
    .update(key + WEBSOCKET_GUID)
    .digest('base64');
  const head =
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
    `Sec-WebSocket-Accept: ${accept}\r\n\r\n`;
  return { head, data: Buffer.concat([TEXT_FRAME_HEADER, Buffer.from(filling)]) };
}
