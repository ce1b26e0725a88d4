import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import {
  type AddressInfo,
  createServer as createTcpServer,
  type Server,
  type Socket,
} from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { createGuardedWebSocketConnector } from '../../src/net/guarded-websocket.ts';

const cleanups: (() => void)[] = [];
afterEach(() => {
  for (const cleanup of cleanups.splice(0)) {
    cleanup();
  }
});

// test/security/egress.test.ts covers addresses, ports, redirects, proxies and certificates.

describe('a guarded WebSocket', () => {
  it('requires wss unless private networks are allowed', async () => {
    const connect = createGuardedWebSocketConnector({ allowPrivateNetworks: false });
    const failure = await failureOf(connect('ws://93.184.216.34/v1/ws'));
    expect(failure).toMatchObject({ reason: 'forbidden address' });
  });

  it('opens without extensions', async () => {
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
    cleanups.push(() => server.close());
    await once(server, 'listening');
    const arrival = once(server, 'connection');
    const socket = open(server.address() as AddressInfo);
    await once(socket, 'open');
    const [peer, request] = await arrival;
    expect(socket.extensions).toBe('');
    expect(request.headers['user-agent']).toBe('nutpost');
    peer.terminate();
    await once(socket, 'close');
  });

  it.each([
    ['endless headers', `X-More: ${'more'.repeat(20_000)}\r\n`, 'HPE_HEADER_OVERFLOW'],
    ['very many headers', 'X-More: more\r\n'.repeat(5_000), 'HPE_HEADER_OVERFLOW'],
    ['compression', 'Sec-WebSocket-Extensions: permessage-deflate\r\n', 'extension'],
    ['a subprotocol', 'Sec-WebSocket-Protocol: chat\r\n', 'subprotocol'],
    ['another key', 'Sec-WebSocket-Accept: x\r\n', 'Sec-WebSocket-Accept'],
  ])('rejects a handshake with %s', async (_case, headers, expected) => {
    const failure = (await failureOf(open(await serveUpgrade(headers)))) as NodeJS.ErrnoException;
    expect(`${failure.code} ${failure.message}`).toContain(expected);
  });

  it.each([
    ['silent', () => undefined],
    [
      'slow',
      (peer: Socket) => {
        peer.write('HTTP/1.1 101 Go\r\nX-Slow: ');
        const drip = setInterval(() => peer.write('x'), 5);
        peer.on('close', () => clearInterval(drip));
      },
    ],
  ])('times out on a %s handshake', async (_case, answer) => {
    const server = createTcpServer((peer) => {
      peer.on('error', () => undefined);
      answer(peer);
    });
    expect(await failureOf(open(await listen(server), 100))).toBeInstanceOf(Error);
  });

  const PART = frame({ first: 0x02, length: 200_000 });
  const TINY_PARTS = Array<Buffer>(20_000).fill(frame({ first: 0x00, length: 1 }));

  it.each([
    ['is compressed', [frame({ first: 0xc1, length: 5 })], 'WS_ERR_UNEXPECTED_RSV_1'],
    ['is too long', [frame({ first: 0x82, length: 2 ** 40 })], 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH'],
    [
      'is too long in parts',
      [PART, frame({ first: 0x00, length: 200_000 })],
      'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH',
    ],
    [
      'has too many parts',
      [frame({ first: 0x02, length: 1 }), ...TINY_PARTS],
      'WS_ERR_TOO_MANY_BUFFERED_PARTS',
    ],
    ['is masked', [Buffer.of(0x81, 0x81, 0, 0, 0, 0, 0x20)], 'WS_ERR_UNEXPECTED_MASK'],
    [
      'is a long ping',
      [frame({ first: 0x89, length: 200 })],
      'WS_ERR_INVALID_CONTROL_PAYLOAD_LENGTH',
    ],
  ])('closes on a message that %s, without waiting for the peer', async (_case, frames, code) => {
    const startedAt = performance.now();
    const failure = await failureOf(open(await serveUpgrade('', Buffer.concat(frames))));
    expect(failure).toMatchObject({ code });
    expect(performance.now() - startedAt).toBeLessThan(10_000);
  });
});

function open({ port }: AddressInfo, handshakeTimeoutMs?: number): WebSocket {
  const connect = createGuardedWebSocketConnector({
    allowPrivateNetworks: true,
    ...(handshakeTimeoutMs !== undefined && { handshakeTimeoutMs }),
  });
  return connect(`ws://127.0.0.1:${port}/v1/ws`);
}

/** Resolves with the error of a socket when it closes. */
async function failureOf(socket: WebSocket): Promise<unknown> {
  let failure: unknown;
  socket.on('error', (error) => {
    failure = error;
  });
  await new Promise((resolve) => socket.once('close', resolve));
  return failure;
}

/** Completes the handshake with additional headers, sends bytes, and keeps the connection open. */
function serveUpgrade(headers: string, then: Buffer = Buffer.alloc(0)): Promise<AddressInfo> {
  const server = createServer().on('upgrade', (request, peer) => {
    peer.on('error', () => undefined);
    peer.write(handshakeOf(request, headers));
    peer.write(then);
    cleanups.push(() => peer.destroy());
  });
  return listen(server);
}

/** Returns the response to a handshake (RFC 6455 section 4.2.2). */
function handshakeOf(request: IncomingMessage, headers: string): string {
  const accept = createHash('sha1')
    .update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    .digest('base64');
  return (
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
    `Sec-WebSocket-Accept: ${accept}\r\n${headers}\r\n`
  );
}

/** Returns a frame of spaces (RFC 6455 section 5.2), truncated to a few 100 kB. */
function frame({ first, length }: { first: number; length: number }): Buffer {
  const header = Buffer.alloc(10);
  header.writeUInt8(first, 0);
  if (length < 126) {
    header.writeUInt8(length, 1);
  } else {
    header.writeUInt8(127, 1);
    header.writeBigUInt64BE(BigInt(length), 2);
  }
  const blanks = Buffer.alloc(Math.min(length, 300_000), ' ');
  return Buffer.concat([header.subarray(0, length < 126 ? 2 : 10), blanks]);
}

async function listen(server: Server): Promise<AddressInfo> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => server.close());
  return server.address() as AddressInfo;
}
