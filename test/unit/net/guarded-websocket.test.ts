import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { WebSocketServer } from 'ws';
import {
  type CloseDetails,
  createGuardedWebSocketConnector,
  type GuardedSocket,
} from '../../../src/net/guarded-websocket.ts';
import { listenOnLoopback } from '../../helpers/network/loopback-server.ts';

// The bits and opcodes of a frame's first byte, and the mask bit of its second byte (RFC 6455 section 5.2).
const FIN = 0x80; // the last frame of a message
const RSV1 = 0x40; // a compressed message
const CONTINUATION = 0x0;
const TEXT = 0x1;
const BINARY = 0x2;
const PING = 0x9;

// test/security/egress.test.ts covers addresses, ports, redirects, proxies and certificates.

describe('createGuardedWebSocketConnector', () => {
  it('requires TLS unless private networks are allowed', async () => {
    const connect = createGuardedWebSocketConnector({ allowPrivateNetworks: false });
    const closing = waitForClose(connect('ws://93.184.216.34/v1/ws'));
    expect(await closing).toEqual({ reason: 'https required', status: null });
  });

  it('opens a connection without extensions', async () => {
    const server = createServer();
    const connection = once(new WebSocketServer({ server }), 'connection');
    const socket = connectTo(await listen(server));
    await once(socket, 'open');
    const [serverSocket, request] = await connection;
    expect(request.headers['sec-websocket-extensions']).toBeUndefined();
    expect(request.headers['user-agent']).toBe('nutpost');
    serverSocket.terminate();
    await once(socket, 'close');
  });

  it.each([
    ['a very long header', `X-More: ${'more'.repeat(20_000)}\r\n`],
    ['an extension', 'Sec-WebSocket-Extensions: permessage-deflate\r\n'],
    ['a wrong Sec-WebSocket-Accept', 'Sec-WebSocket-Accept: x\r\n'],
  ])('rejects a handshake with %s', async (_case, headers) => {
    const closing = waitForClose(connectTo(await startHandshakeServer(headers)));
    expect(await closing).toEqual({ reason: 'not a WebSocket server', status: null });
  });

  it.each([
    ['missing', () => undefined],
    [
      'slow',
      (serverSocket: Socket) => {
        serverSocket.write('HTTP/1.1 101 Go\r\nX-Slow: ');
        const timer = setInterval(() => serverSocket.write('x'), 5);
        serverSocket.on('close', () => clearInterval(timer));
      },
    ],
  ])('times out if the handshake response is %s', async (_case, respond) => {
    const server = createTcpServer(respond);
    const closing = waitForClose(connectTo(await listen(server), 100));
    expect(await closing).toEqual({ reason: 'timed out', status: null });
  });

  // The server keeps the connection open.
  it.each([
    ['is compressed', [frame(FIN | RSV1 | TEXT, 5)]],
    ['is too long in fragments', [frame(TEXT, 200_000), frame(FIN | CONTINUATION, 200_000)]],
    ['has 65 fragments', [frame(TEXT, 1), ...Array<Buffer>(64).fill(frame(CONTINUATION, 1))]],
    ['is a long ping', [frame(FIN | PING, 200)]],
  ])('closes without waiting for the server if a message %s', async (_case, frames) => {
    const socket = connectTo(await startHandshakeServer('', Buffer.concat(frames)));
    const messages: string[] = [];
    socket.on('message', (text) => messages.push(text));
    expect(await waitForClose(socket)).toEqual({ reason: 'connection lost', status: null });
    expect(messages).toEqual([]);
  });

  it('emits a message in 64 fragments, and ignores binary messages', async () => {
    const frames = [
      frame(FIN | BINARY, 5),
      frame(TEXT, 4_000),
      ...Array<Buffer>(62).fill(frame(CONTINUATION, 4_000)),
      frame(FIN | CONTINUATION, 4_000),
    ];
    const socket = connectTo(await startHandshakeServer('', Buffer.concat(frames)));
    const [text] = await once(socket, 'message');
    expect(text).toBe(' '.repeat(256_000));
    socket.terminate();
    await waitForClose(socket);
  });
});

function connectTo(url: string, handshakeTimeoutMs?: number): GuardedSocket {
  const connect = createGuardedWebSocketConnector({
    allowPrivateNetworks: true,
    ...(handshakeTimeoutMs !== undefined && { handshakeTimeoutMs }),
  });
  return connect(url);
}

async function waitForClose(socket: GuardedSocket): Promise<CloseDetails> {
  const [reason] = await once(socket, 'close');
  return reason;
}

function startHandshakeServer(headers: string, bytes = Buffer.alloc(0)): Promise<string> {
  const server = createServer().on('upgrade', (request, serverSocket) => {
    serverSocket.write(renderHandshakeResponse(request, headers));
    serverSocket.write(bytes);
  });
  return listen(server);
}

function renderHandshakeResponse(request: IncomingMessage, headers: string): string {
  const accept = createHash('sha1')
    .update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    .digest('base64');
  return (
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
    `Sec-WebSocket-Accept: ${accept}\r\n${headers}\r\n`
  );
}

/** Returns a frame whose payload is spaces (RFC 6455 section 5.2), truncated to 300 kB. */
function frame(firstByte: number, length: number): Buffer {
  const header = Buffer.alloc(10);
  header.writeUInt8(firstByte, 0);
  if (length < 126) {
    header.writeUInt8(length, 1);
  } else {
    header.writeUInt8(127, 1);
    header.writeBigUInt64BE(BigInt(length), 2);
  }
  const payload = Buffer.alloc(Math.min(length, 300_000), ' ');
  return Buffer.concat([header.subarray(0, length < 126 ? 2 : 10), payload]);
}

async function listen(server: Server): Promise<string> {
  const { url, close } = await listenOnLoopback(server);
  onTestFinished(close);
  return url.replace('http', 'ws');
}
