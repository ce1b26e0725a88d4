import { once } from 'node:events';
import { createServer } from 'node:http';
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

async function listen(server: Server): Promise<void> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(() => server.close());
}
