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
import { createDiffieHellmanServer, SessionTicketServer, type TlsIdentity } from './tls-attacks.ts';

/** Returns an address of an attacker. Each address is a site. */
export const getAttackAddress = (group: number, host: number) => `11.0.${group}.${host}`;

export const getAttackPort = (group: number) => 8_000 + group;

type ConnectionHandler = (connection: Socket) => void;

const FILLING_BYTES = 8_192;
/** A text message of that length. */
const TEXT_FRAME_HEADER = Buffer.of(0x81, 126, FILLING_BYTES >> 8, FILLING_BYTES & 0xff);

/** A handshake with the most bits that OpenSSL accepts takes a client a second; one with 4,096 bits 50 ms. */
const SLOW_HANDSHAKE_BITS = 10_000;
const SHORT_HANDSHAKE_BITS = 4_096;

/** Below the connect timeout of the service. */
const HOLD_MS = 4_000;

const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';

/** The first bytes that a server sends, and the bytes that it then repeats. None of them belong to a body. */
const HTTP_FLOODS = [
  [`${CHUNKED}1;a=`, 'b'],
  [CHUNKED, '0'],
  ['', '\r\n'],
  ['', 'HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n'],
  [`${CHUNKED}0\r\n`, 'X-More: more\r\n'],
] as const;

/**
 * A host that is an honest mint under each path of one number (`/1`), until it attacks all clients that connect. It
 * listens on all addresses.
 */
export class AttackHost {
  #attackedConnections: Socket[] = [];
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
    this.#attack = ATTACKS[attack](identity);
    this.#beHonest = createHonestMint(identity);
  }

  /** Of the last attack. Includes what the system has buffered for the client. */
  get maxBytesPerConnection(): number {
    return Math.max(0, ...this.#attackedConnections.map(({ bytesWritten }) => bytesWritten));
  }

  setAttacking(isAttacking: boolean): void {
    this.#isAttacking = isAttacking;
    this.#attackedConnections = isAttacking ? [] : this.#attackedConnections;
    for (const connection of this.#connections) {
      connection.destroy();
    }
  }

  #handleConnection(connection: Socket): void {
    this.#connections.add(connection);
    connection.on('error', () => undefined);
    connection.once('close', () => this.#connections.delete(connection));
    if (this.#isAttacking) {
      this.#attackedConnections.push(connection);
      this.#attack(connection);
    } else {
      this.#beHonest(connection);
    }
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

export type HostAttack = keyof typeof ATTACKS;

const ATTACKS = {
  'slow handshakes': (identity) => createDiffieHellmanServer(identity, SLOW_HANDSHAKE_BITS),
  'simultaneous handshakes': (identity) =>
    holdConnections(createDiffieHellmanServer(identity, SHORT_HANDSHAKE_BITS)),
  'session tickets': (identity) =>
    takeTurns([true, false].map((hasData) => createTicketFlood(identity, hasData))),
  'bytes that are no body': (identity) =>
    takeTurns(HTTP_FLOODS.map((bytes) => createHttpFlood(identity, bytes))),
} satisfies Record<string, (identity: TlsIdentity) => ConnectionHandler>;

function takeTurns(handlers: readonly ConnectionHandler[]): ConnectionHandler {
  let count = 0;
  return (connection) => {
    count += 1;
    handlers[count % handlers.length]?.(connection);
  };
}

function createHttpFlood(
  identity: TlsIdentity,
  [start, repeated]: readonly [start: string, repeated: string],
): ConnectionHandler {
  const secureContext = createSecureContext(identity);
  return (connection) => {
    const tls = new TLSSocket(connection, { isServer: true, secureContext });
    tls.on('error', () => connection.destroy());
    tls.once('data', () => {
      tls.write(start);
      flood(tls, repeated);
    });
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

function createTicketFlood(identity: TlsIdentity, hasData: boolean): ConnectionHandler {
  return (connection) => {
    const server = new SessionTicketServer(connection, identity);
    server.tls.once('data', (request: Buffer) => {
      const { head, data } = startResponse(request.toString());
      server.tls.write(head, () => void server.flood(hasData ? data : null));
    });
  };
}

/** Accepts a WebSocket or a request. @returns the first part of the response, and a part that can follow repeatedly */
function startResponse(request: string): { head: string; data: Buffer } {
  const filling = ' '.repeat(FILLING_BYTES);
  const key = /^sec-websocket-key: *(\S+)/im.exec(request)?.[1];
  if (key === undefined) {
    return {
      head: CHUNKED,
      data: Buffer.from(`${FILLING_BYTES.toString(16)}\r\n${filling}\r\n`),
    };
  }
  // RFC 6455 section 1.3.
  const accept = createHash('sha1')
    .update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    .digest('base64');
  const head =
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
    `Sec-WebSocket-Accept: ${accept}\r\n\r\n`;
  return { head, data: Buffer.concat([TEXT_FRAME_HEADER, Buffer.from(filling)]) };
}
