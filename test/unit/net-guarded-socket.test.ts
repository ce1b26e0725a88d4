import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { guardedSocketConnector } from '../../src/net/guarded-socket.ts';

const cleanups: (() => void)[] = [];
afterEach(() => {
  for (const cleanup of cleanups.splice(0)) {
    cleanup();
  }
});

describe('a guarded socket', () => {
  it.each([
    'wss://127.0.0.1:1/v1/ws',
    'wss://[::1]:1/v1/ws',
    'wss://localhost:1/v1/ws',
    'ws://93.184.216.34/v1/ws',
    'wss://93.184.216.34:22/v1/ws',
    'wss://93.184.216.34:80/v1/ws',
    'wss://mint.example:1023/v1/ws',
  ])('refuses %s', async (url) => {
    const connect = guardedSocketConnector({ allowPrivateNetworks: false });
    expect(await failureOf(connect(url))).toMatchObject({ code: 'EFORBIDDENADDRESS' });
  });

  it('opens to a private address where that is allowed', async () => {
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
    cleanups.push(() => server.close());
    await once(server, 'listening');
    const arrival = once(server, 'connection');
    const socket = open(server.address() as AddressInfo);
    await once(socket, 'open');
    const [peer, request] = await arrival;
    expect(socket.extensions).toBe('');
    expect(request.headers['user-agent']).toBe('nutpost');
    const closed = once(socket, 'close');
    peer.terminate();
    await closed;
  });

  it('ends with a message that is too large', async () => {
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
    cleanups.push(() => server.close());
    await once(server, 'listening');
    server.on('connection', (peer) => peer.send('x'.repeat(300 * 1024)));
    const socket = open(server.address() as AddressInfo);
    expect(await failureOf(socket)).toMatchObject({
      code: 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH',
    });
  });

  it('follows no redirect', async () => {
    const server = createServer();
    server.on('upgrade', (_request, socket) => {
      socket.end('HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n');
    });
    await listen(server);
    expect(String(await failureOf(open(server.address() as AddressInfo)))).toContain('302');
  });

  it.each([
    ['headers without an end', `X-More: ${'more'.repeat(20_000)}\r\n`, 'HPE_HEADER_OVERFLOW'],
    ['very many headers', 'X-More: more\r\n'.repeat(5_000), 'HPE_HEADER_OVERFLOW'],
    [
      'compression that nobody asked for',
      'Sec-WebSocket-Extensions: permessage-deflate\r\n',
      'extension',
    ],
    ['a protocol that nobody asked for', 'Sec-WebSocket-Protocol: chat\r\n', 'subprotocol'],
  ])('takes no handshake with %s', async (_what, headers, expected) => {
    const server = await handshaking(headers);
    const failure = (await failureOf(open(server))) as NodeJS.ErrnoException;
    expect(`${failure.code} ${failure.message}`).toContain(expected);
  });

  it('takes no handshake of another key', async () => {
    const server = createServer().on('upgrade', (_request, socket) => {
      socket.write(
        'HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n',
      );
    });
    await listen(server);
    const failure = await failureOf(open(server.address() as AddressInfo));
    expect(String(failure)).toContain('Sec-WebSocket-Accept');
  });

  it('gives up on a handshake of which a little comes now and then', async () => {
    const server = createTcpServer((peer) => {
      peer.on('error', () => undefined);
      peer.write('HTTP/1.1 101 Go\r\nX-Slow: ');
      const drip = setInterval(() => peer.write('x'), 5);
      peer.on('close', () => clearInterval(drip));
    });
    await listen(server);
    expect(await failureOf(open(server.address() as AddressInfo, 100))).toBeInstanceOf(Error);
  });

  it.each([
    ['says that it is compressed', frame({ first: 0xc1, length: 5 }), 'WS_ERR_UNEXPECTED_RSV_1'],
    [
      'is longer than memory',
      frame({ first: 0x82, length: 2 ** 40 }),
      'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH',
    ],
    [
      'never ends, in large parts',
      Buffer.concat([
        frame({ first: 0x02, length: 200_000 }),
        frame({ first: 0x00, length: 200_000 }),
      ]),
      'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH',
    ],
    [
      'never ends, in parts of a byte',
      Buffer.concat([
        frame({ first: 0x02, length: 1 }),
        ...Array.from({ length: 20_000 }, () => frame({ first: 0x00, length: 1 })),
      ]),
      'WS_ERR_TOO_MANY_BUFFERED_PARTS',
    ],
    ['is masked', Buffer.of(0x81, 0x81, 0, 0, 0, 0, 0x20), 'WS_ERR_UNEXPECTED_MASK'],
    [
      'is a ping of too many bytes',
      frame({ first: 0x89, length: 200 }),
      'WS_ERR_INVALID_CONTROL_PAYLOAD_LENGTH',
    ],
  ])('ends with a message that %s', async (_what, frames, code) => {
    const server = await handshaking('', frames);
    expect(await failureOf(open(server))).toMatchObject({ code });
  });

  it('does not wait long for a peer that broke the protocol to hang up', async () => {
    const server = createServer().on('upgrade', (request, peer) => {
      peer.on('error', () => undefined);
      peer.write(handshakeOf(request, ''));
      peer.write(frame({ first: 0xc1, length: 5 }));
      cleanups.push(() => peer.destroy());
    });
    await listen(server);
    const begunAt = performance.now();
    const failure = await failureOf(open(server.address() as AddressInfo));
    expect(failure).toMatchObject({ code: 'WS_ERR_UNEXPECTED_RSV_1' });
    expect(performance.now() - begunAt).toBeLessThan(10_000);
  });

  it('keeps no pile of pongs for a peer that pings and does not read', async () => {
    const pings = Buffer.concat(
      Array.from({ length: 1_000 }, () => frame({ first: 0x89, length: 125 })),
    );
    const flooded = Promise.withResolvers<void>();
    const server = createServer().on('upgrade', (request, peer) => {
      peer.on('error', () => undefined);
      peer.write(handshakeOf(request, ''));
      // It is never read from again.
      peer.pause();
      let left = 100;
      const pour = () => {
        left -= 1;
        peer.write(pings, left > 0 ? pour : () => flooded.resolve());
      };
      pour();
    });
    await listen(server);
    const socket = open(server.address() as AddressInfo);
    socket.on('error', () => undefined);
    let pingsHeard = 0;
    const allHeard = Promise.withResolvers<void>();
    socket.on('ping', () => {
      pingsHeard += 1;
      if (pingsHeard === 100_000) {
        allHeard.resolve();
      }
    });
    socket.on('close', () => allHeard.resolve());
    await flooded.promise;
    await allHeard.promise;
    // All of the pongs would be 13 MB, of which the system's buffers hold a part.
    expect(socket.bufferedAmount).toBeLessThan(64 * 1024);
    socket.terminate();
  });

  it('gives up on a handshake that takes too long', async () => {
    const server = createTcpServer();
    await listen(server);
    const socket = open(server.address() as AddressInfo, 50);
    expect(await failureOf(socket)).toBeInstanceOf(Error);
  });
});

function open({ port }: AddressInfo, handshakeTimeoutMs?: number): WebSocket {
  const connect = guardedSocketConnector({
    allowPrivateNetworks: true,
    ...(handshakeTimeoutMs !== undefined && { handshakeTimeoutMs }),
  });
  return connect(`ws://127.0.0.1:${port}/v1/ws`);
}

/** The error with which a socket ends, once it has ended. */
async function failureOf(socket: WebSocket): Promise<unknown> {
  let failure: unknown;
  socket.on('error', (error) => {
    failure = error;
  });
  await new Promise((resolve) => socket.once('close', resolve));
  return failure;
}

/** A server that upgrades with these headers beside the right ones, and then sends bytes. */
async function handshaking(headers: string, then: Buffer = Buffer.alloc(0)): Promise<AddressInfo> {
  const server = createServer().on('upgrade', (request, peer) => {
    peer.on('error', () => undefined);
    peer.write(handshakeOf(request, headers));
    peer.write(then);
    // By now it has been told goodbye.
    peer.on('data', () => peer.destroy());
  });
  await listen(server);
  return server.address() as AddressInfo;
}

/** The answer to a handshake (RFC 6455 section 4.2.2). */
function handshakeOf(request: IncomingMessage, headers: string): string {
  const accept = createHash('sha1')
    .update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    .digest('base64');
  return (
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
    `Sec-WebSocket-Accept: ${accept}\r\n${headers}\r\n`
  );
}

/** A frame of blanks (RFC 6455 section 5.2), of which at most a few 100 kB are really there. */
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

async function listen(server: Server): Promise<void> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(() => server.close());
}
