import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished } from 'vitest';
import { WebSocket } from 'ws';
import { encodeFrame, RawWebSocket, WS_OPCODES } from '../helpers/network/raw-websocket-client.ts';
import { type RecipientClient, TestQuoteSocket } from '../helpers/recipients/recipient-client.ts';
import {
  assignNewTestMint,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';

const SOCKET_PATH = '/api/v2/ws/quote';

type Headers = Record<string, string>;

const POLICY_VIOLATION = 1008;

const environment = useTestEnvironment();

it('rejects handshakes over the limit per address, which does not count closed sockets', async () => {
  const { publicOrigin: origin } = await useAdditionalService(environment, {
    LIMIT_SOCKETS_PER_ADDRESS: '2',
  });
  for (let round = 0; round < 3; round += 1) {
    (await openSocketWithRetry(origin)).connection.terminate();
    await (await openSocketWithRetry(origin)).close();
    const unauthenticated = await openSocketWithRetry(origin);
    unauthenticated.send('challenge-response', 'nonsense');
    await unauthenticated.waitForClose();
  }
  const first = await openSocketWithRetry(origin);
  await openSocketWithRetry(origin);
  const rejection = await getHandshakeRejection(origin);
  expect(rejection.statusCode).toBe(429);
  expect(rejection.headers).toMatchObject({
    'retry-after': '60',
    'access-control-allow-origin': '*',
  });
  expect(await json(rejection)).toEqual({
    error: true,
    code: 'rate_limited',
    message: 'There are too many connections from your IP address. Try again in 60 s.',
  });
  expect(await first.drainMessages()).toEqual([]);
});

it('rejects handshakes from every address when the total socket limit is reached', async () => {
  const { publicOrigin: origin } = await useAdditionalService(environment, {
    LIMIT_SOCKETS: '2',
    TRUST_PROXY: '127.0.0.1',
  });
  const first = await openSocket(origin, forwardedFor('192.0.2.1'));
  await openSocket(origin, forwardedFor('192.0.2.2'));
  const rejection = await getHandshakeRejection(origin, forwardedFor('192.0.2.3'));
  expect(rejection.statusCode).toBe(429);
  expect(rejection.headers['retry-after']).toBe('60');
  await first.close();
  await openSocketWithRetry(origin, forwardedFor('192.0.2.3'));
});

it('closes the oldest socket of a key over its limit, while the others still receive updates', async () => {
  const { publicOrigin: origin } = await useAdditionalService(environment, {
    LIMIT_SOCKETS_PER_KEY: '2',
  });
  const wallet = environment.newWallet();
  const mint = await assignNewTestMint(wallet);
  const [oldest, newer] = [await signIn(wallet, origin), await signIn(wallet, origin)];
  const otherUser = await signIn(environment.newWallet(), origin);
  const newest = await signIn(wallet, origin);
  expect(await oldest.waitForClose()).toBe(POLICY_VIOLATION);
  // An error message would make the client reconnect, which would close the next socket.
  expect(oldest.unreadMessages).toEqual([]);

  const { pr } = await environment.requestInvoice(wallet, 21);
  mint.pay(pr);
  for (const socket of [newer, newest]) {
    expect((await socket.nextMessage()).type).toBe('update');
    expect(await socket.drainMessages()).toEqual([]);
  }
  expect(await otherUser.drainMessages()).toEqual([]);
});

it.each<[string, Buffer]>([
  ['messages', encodeFrame('{"type":"ping"}')],
  ['binary messages', encodeFrame(Buffer.from([0xff, 0]), { opcode: WS_OPCODES.binary })],
  ['pings', encodeFrame('', { opcode: WS_OPCODES.ping })],
])(
  'closes only the socket that sends more than two seconds of %s at once',
  async (_case, frame) => {
    const { publicOrigin: origin } = await useAdditionalService(
      environment,
      { LIMIT_SOCKET_MESSAGES: '5' },
      // The clock stands still.
      { monotonicMs: () => 0 },
    );
    const other = await signIn(environment.newWallet(), origin);
    const rawSocket = await openRawSocket(origin);
    await rawSocket.authenticate(
      environment.newWallet().withOrigin(origin).signRequest(SOCKET_PATH),
    );
    // The challenge response is the first message.
    rawSocket.send(Buffer.concat(Array.from({ length: 9 }, () => frame)));
    expect(await other.drainMessages()).toEqual([]);
    expect(rawSocket.received).not.toContain('error');
    rawSocket.send(frame);
    await rawSocket.waitForText(encodeCloseFrame(POLICY_VIOLATION));
    expect(rawSocket.received).toContain('{"type":"error","payload":"Too many messages."}');
    expect(await other.drainMessages()).toEqual([]);
  },
);

describe('an unresponsive client', () => {
  it('is disconnected if it does not read, without delaying updates to other sockets of its key', async () => {
    const { publicOrigin: origin } = await useAdditionalService(environment, {});
    const wallet = environment.newWallet();
    const mint = await assignNewTestMint(wallet);
    const unresponsive = await openRawSocket(origin);
    await unresponsive.authenticate(wallet.withOrigin(origin).signRequest(SOCKET_PATH));
    unresponsive.connection.pause();
    const socket = await signIn(wallet, origin);

    const { pr } = await environment.requestInvoice(wallet, 21);
    const flood = floodUntilClosed(unresponsive, encodeFrame('{"type":"ping"}'));
    mint.pay(pr);
    expect((await socket.nextMessage()).type).toBe('update');
    await flood;
  });

  it('is disconnected if it sends no matching pong, whatever else it sends', async () => {
    const { publicOrigin: origin } = await useAdditionalService(
      environment,
      {},
      { socketTiming: { heartbeatIntervalMs: 500 } },
    );
    const responsive = await signIn(environment.newWallet(), origin);
    const unresponsive = await openRawSocket(origin);
    await unresponsive.authenticate(
      environment.newWallet().withOrigin(origin).signRequest(SOCKET_PATH),
    );
    unresponsive.connection.on('data', () => {
      unresponsive.send(encodeFrame('', { opcode: WS_OPCODES.pong }));
      unresponsive.send(encodeFrame('12345678', { opcode: WS_OPCODES.pong }));
      unresponsive.send(encodeFrame('{"type":"hello"}'));
    });
    await unresponsive.waitForText('The connection was silent. Please reconnect.');
    await unresponsive.waitForClose();
    for (let pings = 0; pings < 3; pings += 1) {
      await once(responsive.connection, 'ping');
    }
    expect(await responsive.drainMessages()).toEqual([]);
  });
});

async function openRawSocket(origin: string): Promise<RawWebSocket> {
  const rawSocket = await RawWebSocket.connect(origin);
  onTestFinished(() => {
    rawSocket.connection.destroy();
  });
  return rawSocket;
}

async function openSocket(origin: string, headers: Headers = {}): Promise<TestQuoteSocket> {
  const socket = new TestQuoteSocket(origin, SOCKET_PATH, headers);
  onTestFinished(() => socket.connection.terminate());
  await once(socket.connection, 'open');
  expect((await socket.nextMessage()).type).toBe('challenge');
  return socket;
}

/** Retries until the server has noticed that an earlier connection is closed. */
async function openSocketWithRetry(
  origin: string,
  headers: Headers = {},
): Promise<TestQuoteSocket> {
  for (;;) {
    try {
      return await openSocket(origin, headers);
    } catch (error) {
      expect(String(error)).toContain('429');
    }
  }
}

async function signIn(wallet: RecipientClient, origin: string): Promise<TestQuoteSocket> {
  const socket = await openSocket(origin);
  socket.send('challenge-response', wallet.withOrigin(origin).signRequest(SOCKET_PATH));
  expect(await socket.nextMessage()).toEqual({ type: 'challenge-success' });
  return socket;
}

async function getHandshakeRejection(
  origin: string,
  headers: Headers = {},
): Promise<IncomingMessage> {
  const connection = new WebSocket(`${origin.replace(/^http/, 'ws')}${SOCKET_PATH}`, { headers });
  onTestFinished(() => connection.terminate());
  connection.on('error', () => undefined);
  const [, response] = await once(connection, 'unexpected-response');
  return response;
}

function forwardedFor(address: string): Headers {
  return { 'x-forwarded-for': address };
}

function encodeCloseFrame(code: number): string {
  return Buffer.from([0x88, 2, code >> 8, code & 0xff]).toString('latin1');
}

async function floodUntilClosed(rawSocket: RawWebSocket, frame: Buffer): Promise<void> {
  const batch = Buffer.concat(Array.from({ length: 1_000 }, () => frame));
  while (!rawSocket.connection.closed && rawSocket.connection.writable) {
    if (!rawSocket.send(batch)) {
      await new Promise((resolve) => {
        rawSocket.connection.once('drain', resolve).once('close', resolve);
      });
    }
  }
  await rawSocket.waitForClose();
}
