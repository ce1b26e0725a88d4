import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { WebSocket } from 'ws';
import type { Service } from '../../src/service.ts';
import { encodeFrame, OPCODES, RawWebSocket } from '../helpers/raw-websocket.ts';
import {
  assignTestMint,
  startAdditionalService,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/test-environment.ts';
import { TestQuoteSocket, type TestWallet } from '../helpers/test-wallet.ts';

/** Limits of the quote WebSocket for untrusted clients. */

const PATH = '/api/v2/ws/quote';

/** RFC 6455 close codes. */
const POLICY_VIOLATION = 1008;

const world = useTestEnvironment();

describe('the socket limit per address', () => {
  it('rejects further handshakes with 429 and Retry-After', async () => {
    const { publicOrigin: base } = await useAdditionalService(world, {
      LIMIT_SOCKETS_PER_ADDRESS: '2',
    });
    const first = await openSocket(base);
    await openSocket(base);
    const rejection = await getHandshakeRejection(base);
    expect(rejection.statusCode).toBe(429);
    expect(rejection.headers).toMatchObject({
      'retry-after': '60',
      'access-control-allow-origin': '*',
    });
    expect(await json(rejection)).toEqual({
      error: true,
      message: 'There are too many connections from this address. Try again in 60 s.',
    });
    expect(await first.drainMessages()).toEqual([]);
  });

  it('counts open sockets correctly after every kind of close', async () => {
    const { publicOrigin: base } = await useAdditionalService(world, {
      LIMIT_SOCKETS_PER_ADDRESS: '2',
    });
    for (let round = 0; round < 3; round += 1) {
      (await openSocketWithRetry(base)).connection.terminate();
      await (await openSocketWithRetry(base)).close();
      const unauthenticated = await openSocketWithRetry(base);
      unauthenticated.send('challenge-response', 'nonsense');
      await unauthenticated.waitForClose();
    }
    await openSocketWithRetry(base);
    await openSocketWithRetry(base);
    expect((await getHandshakeRejection(base)).statusCode).toBe(429);
  });
});

it('rejects further handshakes of all addresses over the total socket limit', async () => {
  const { publicOrigin: base } = await useAdditionalService(world, {
    LIMIT_SOCKETS: '2',
    TRUST_PROXY: '127.0.0.1',
  });
  const first = await openSocket(base, from('192.0.2.1'));
  await openSocket(base, from('192.0.2.2'));
  const rejection = await getHandshakeRejection(base, from('192.0.2.3'));
  expect(rejection.statusCode).toBe(429);
  expect(rejection.headers['retry-after']).toBe('60');
  await first.close();
  await openSocketWithRetry(base, from('192.0.2.3'));
});

describe('the socket limit per key', () => {
  it('closes the oldest socket; the others still receive every update', async () => {
    const { publicOrigin: base } = await useAdditionalService(world, {
      LIMIT_SOCKETS_PER_KEY: '2',
    });
    const wallet = world.newWallet();
    const mint = await assignTestMint(wallet);
    const [oldest, newer] = [await signIn(wallet, base), await signIn(wallet, base)];
    const otherUser = await signIn(world.newWallet(), base);
    const newest = await signIn(wallet, base);
    expect(await oldest.waitForClose()).toBe(POLICY_VIOLATION);
    // An error message would make its client reconnect and evict the next socket.
    expect(oldest.unreadMessages).toEqual([]);

    const { pr } = await world.requestInvoice(wallet, 21);
    mint.pay(pr);
    for (const socket of [newer, newest]) {
      expect((await socket.nextMessage()).type).toBe('update');
      expect(await socket.drainMessages()).toEqual([]);
    }
    expect(await otherUser.drainMessages()).toEqual([]);
  });
});

describe('the message limit per socket', () => {
  // 5 per second with a burst of 10; the challenge response uses one of them.
  const REMAINING_BURST = 9;
  let service: Service;

  beforeAll(async () => {
    service = await startAdditionalService(world, { LIMIT_SOCKET_MESSAGES: '5' });
  });

  afterAll(() => service.stop());

  it.each<[string, Buffer]>([
    ['messages', encodeFrame('{"type":"ping"}')],
    ['empty messages', encodeFrame('')],
    ['binary messages', encodeFrame(Buffer.from([0xff, 0]), { opcode: OPCODES.binary })],
    ['pings', encodeFrame('', { opcode: OPCODES.ping })],
    ['pongs', encodeFrame('', { opcode: OPCODES.pong })],
  ])('closes only the socket that sends too many %s', async (_case, message) => {
    const base = service.publicOrigin;
    const other = await signIn(world.newWallet(), base);
    const raw = await openRaw(base);
    await raw.authenticate(world.newWallet().withOrigin(base).signRequest(PATH));
    // Well over the limit, because it refills while a slow machine reads the messages.
    raw.send(Buffer.concat(Array.from({ length: 2 * REMAINING_BURST }, () => message)));
    await raw.waitForText(closeFrame(POLICY_VIOLATION));
    expect(raw.received).toContain('{"type":"error","payload":"Too many messages."}');
    expect(await other.drainMessages()).toEqual([]);
  });
});

describe('a client that does not read', () => {
  it('is disconnected without delaying updates to other sockets of its key', async () => {
    const { publicOrigin: base } = await useAdditionalService(world, {});
    const wallet = world.newWallet();
    const mint = await assignTestMint(wallet);
    const unresponsive = await openRaw(base);
    await unresponsive.authenticate(wallet.withOrigin(base).signRequest(PATH));
    unresponsive.connection.pause();
    const socket = await signIn(wallet, base);

    const { pr } = await world.requestInvoice(wallet, 21);
    const flood = floodUntilClosed(unresponsive, encodeFrame('{"type":"ping"}'));
    mint.pay(pr);
    expect((await socket.nextMessage()).type).toBe('update');
    await flood;
  });

  it('is disconnected if it sends no matching pong, whatever else it sends', async () => {
    const { publicOrigin: base } = await useAdditionalService(
      world,
      {},
      { socketHeartbeatIntervalMs: 500 },
    );
    const reading = await signIn(world.newWallet(), base);
    const unresponsive = await openRaw(base);
    await unresponsive.authenticate(world.newWallet().withOrigin(base).signRequest(PATH));
    unresponsive.connection.on('data', () => {
      unresponsive.send(encodeFrame('', { opcode: OPCODES.pong }));
      unresponsive.send(encodeFrame('12345678', { opcode: OPCODES.pong }));
      unresponsive.send(encodeFrame('{"type":"hello"}'));
    });
    await unresponsive.waitForText('The connection was silent. Please reconnect.');
    await unresponsive.waitForClose();
    for (let pings = 0; pings < 3; pings += 1) {
      await once(reading.connection, 'ping');
    }
    expect(await reading.drainMessages()).toEqual([]);
  });
});

async function openRaw(base: string, handshake?: string): Promise<RawWebSocket> {
  const raw = await RawWebSocket.connect(base, handshake);
  onTestFinished(() => {
    raw.connection.destroy();
  });
  return raw;
}

/** Opens a socket and waits for its challenge. */
async function openSocket(
  base: string,
  headers: Record<string, string> = {},
): Promise<TestQuoteSocket> {
  const socket = new TestQuoteSocket(base, PATH, headers);
  onTestFinished(() => socket.connection.terminate());
  await once(socket.connection, 'open');
  expect((await socket.nextMessage()).type).toBe('challenge');
  return socket;
}

/** Retries until the server has noticed that an earlier connection is closed. */
async function openSocketWithRetry(
  base: string,
  headers: Record<string, string> = {},
): Promise<TestQuoteSocket> {
  for (;;) {
    try {
      return await openSocket(base, headers);
    } catch (error) {
      expect(String(error)).toContain('429');
    }
  }
}

async function signIn(wallet: TestWallet, base: string): Promise<TestQuoteSocket> {
  const socket = await openSocket(base);
  socket.send('challenge-response', wallet.withOrigin(base).signRequest(PATH));
  expect(await socket.nextMessage()).toEqual({ type: 'challenge-success' });
  return socket;
}

/** Returns the HTTP response to a rejected handshake. */
async function getHandshakeRejection(
  base: string,
  headers: Record<string, string> = {},
): Promise<IncomingMessage> {
  const connection = new WebSocket(`${base.replace(/^http/, 'ws')}${PATH}`, { headers });
  onTestFinished(() => connection.terminate());
  connection.on('error', () => undefined);
  const [, response] = await once(connection, 'unexpected-response');
  return response;
}

function from(address: string): Record<string, string> {
  return { 'x-forwarded-for': address };
}

/** Encodes an unmasked close frame without a reason. */
function closeFrame(code: number): string {
  return Buffer.from([0x88, 2, code >> 8, code & 0xff]).toString('latin1');
}

/** Sends the same frame as fast as possible until the server closes the connection. */
async function floodUntilClosed(raw: RawWebSocket, message: Buffer): Promise<void> {
  const batch = Buffer.concat(Array.from({ length: 1_000 }, () => message));
  while (!raw.connection.closed && raw.connection.writable) {
    if (!raw.send(batch)) {
      await new Promise((resolve) => {
        raw.connection.once('drain', resolve).once('close', resolve);
      });
    }
  }
  await raw.waitForClose();
}
