import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { WebSocket } from 'ws';
import type { Service } from '../../src/service.ts';
import { frame, OPCODES, RawSocket } from '../helpers/raw-socket.ts';
import { TestSocket, type TestWallet } from '../helpers/wallet.ts';
import { giveOwnMint, serveBeside, startBeside, useWorld } from '../helpers/world.ts';

/** What the quote WebSocket grants to strangers (domain/limits.ts), and what it costs. */

const PATH = '/api/v2/ws/quote';

/** RFC 6455 close codes. */
const POLICY_VIOLATION = 1008;

const world = useWorld();

describe('sockets of one address', () => {
  it('beyond the limit are refused in HTTP, with the time to try again', async () => {
    const { publicOrigin: base } = await serveBeside(world, { LIMIT_SOCKETS_PER_ADDRESS: '2' });
    const first = await openSocket(base);
    await openSocket(base);
    const refusal = await refusedHandshake(base);
    expect(refusal.statusCode).toBe(429);
    expect(refusal.headers).toMatchObject({
      'retry-after': '60',
      'access-control-allow-origin': '*',
    });
    expect(await json(refusal)).toEqual({
      error: true,
      message: 'There are too many connections from this address. Try again in 60 s.',
    });
    expect(await first.drain()).toEqual([]);
  });

  it('are counted exactly, however they came to their end', async () => {
    const { publicOrigin: base } = await serveBeside(world, { LIMIT_SOCKETS_PER_ADDRESS: '2' });
    for (let round = 0; round < 3; round += 1) {
      (await openSocketOnceThereIsRoom(base)).connection.terminate();
      await (await openSocketOnceThereIsRoom(base)).close();
      const refused = await openSocketOnceThereIsRoom(base);
      refused.send('challenge-response', 'nonsense');
      await refused.closed();
    }
    await openSocketOnceThereIsRoom(base);
    await openSocketOnceThereIsRoom(base);
    expect((await refusedHandshake(base)).statusCode).toBe(429);
  });
});

it('sockets of all addresses together have a limit, too', async () => {
  const { publicOrigin: base } = await serveBeside(world, {
    LIMIT_SOCKETS: '2',
    TRUST_PROXY: '127.0.0.1',
  });
  const first = await openSocket(base, from('192.0.2.1'));
  await openSocket(base, from('192.0.2.2'));
  const refusal = await refusedHandshake(base, from('192.0.2.3'));
  expect(refusal.statusCode).toBe(429);
  expect(refusal.headers['retry-after']).toBe('60');
  await first.close();
  await openSocketOnceThereIsRoom(base, from('192.0.2.3'));
});

describe('sockets of one key', () => {
  it('beyond the limit push the oldest one out, and still hear of every payment', async () => {
    const { publicOrigin: base } = await serveBeside(world, { LIMIT_SOCKETS_PER_KEY: '2' });
    const wallet = world.newWallet();
    const mint = await giveOwnMint(wallet);
    const [oldest, newer] = [await signIn(wallet, base), await signIn(wallet, base)];
    const stranger = await signIn(world.newWallet(), base);
    const newest = await signIn(wallet, base);
    expect(await oldest.closed()).toBe(POLICY_VIOLATION);
    // An error would make its client reconnect, and push the next one out.
    expect(oldest.unread).toEqual([]);

    const { pr } = await world.askInvoice(wallet, 21);
    mint.pay(pr);
    for (const socket of [newer, newest]) {
      expect((await socket.next()).type).toBe('update');
      expect(await socket.drain()).toEqual([]);
    }
    expect(await stranger.drain()).toEqual([]);
  });
});

describe('messages of one socket', () => {
  // 5 a second, and those of two seconds at once; one is the answer to the challenge.
  const LEFT_AT_ONCE = 9;
  let service: Service;

  beforeAll(async () => {
    service = await startBeside(world, { LIMIT_SOCKET_MESSAGES: '5' });
  });

  afterAll(() => service.stop());

  it.each<[string, Buffer]>([
    ['messages', frame('{"type":"ping"}')],
    ['empty messages', frame('')],
    ['binary messages', frame(Buffer.from([0xff, 0]), { opcode: OPCODES.binary })],
    ['pings', frame('', { opcode: OPCODES.ping })],
    ['pongs', frame('', { opcode: OPCODES.pong })],
  ])('beyond the limit end it, and no other: %s', async (_kind, message) => {
    const base = service.publicOrigin;
    const other = await signIn(world.newWallet(), base);
    const raw = await openRaw(base);
    await raw.signIn(world.newWallet().at(base).sign(PATH));
    // More than one beyond the limit: a slow machine may regain some of it while it reads them.
    raw.send(Buffer.concat(Array.from({ length: 2 * LEFT_AT_ONCE }, () => message)));
    await raw.receive(closeFrame(POLICY_VIOLATION));
    expect(raw.received).toContain('{"type":"error","payload":"Too many messages."}');
    expect(await other.drain()).toEqual([]);
  });
});

describe('a client that does not read', () => {
  it('is dropped, and other sockets of its key hear of payments meanwhile', async () => {
    const { publicOrigin: base } = await serveBeside(world, {});
    const wallet = world.newWallet();
    const mint = await giveOwnMint(wallet);
    const deaf = await openRaw(base);
    await deaf.signIn(wallet.at(base).sign(PATH));
    deaf.connection.pause();
    const socket = await signIn(wallet, base);

    const { pr } = await world.askInvoice(wallet, 21);
    const flood = floodUntilGone(deaf, frame('{"type":"ping"}'));
    mint.pay(pr);
    expect((await socket.next()).type).toBe('update');
    await flood;
  });

  it('is dropped when it answers no ping, whatever else it sends', async () => {
    const { publicOrigin: base } = await serveBeside(world, {}, { socketHeartbeatMs: 500 });
    const reading = await signIn(world.newWallet(), base);
    const deaf = await openRaw(base);
    await deaf.signIn(world.newWallet().at(base).sign(PATH));
    deaf.connection.on('data', () => {
      deaf.send(frame('', { opcode: OPCODES.pong }));
      deaf.send(frame('12345678', { opcode: OPCODES.pong }));
      deaf.send(frame('{"type":"hello"}'));
    });
    await deaf.receive('The connection was silent. Please reconnect.');
    await deaf.gone();
    for (let beats = 0; beats < 3; beats += 1) {
      await once(reading.connection, 'ping');
    }
    expect(await reading.drain()).toEqual([]);
  });
});

async function openRaw(base: string, handshake?: string): Promise<RawSocket> {
  const raw = await RawSocket.connect(base, handshake);
  onTestFinished(() => {
    raw.connection.destroy();
  });
  return raw;
}

/** A socket that has been challenged. */
async function openSocket(base: string, headers: Record<string, string> = {}): Promise<TestSocket> {
  const socket = new TestSocket(base, PATH, headers);
  onTestFinished(() => socket.connection.terminate());
  await once(socket.connection, 'open');
  expect((await socket.next()).type).toBe('challenge');
  return socket;
}

/** The server sees the end of a connection a moment after its client does. */
async function openSocketOnceThereIsRoom(
  base: string,
  headers: Record<string, string> = {},
): Promise<TestSocket> {
  for (;;) {
    try {
      return await openSocket(base, headers);
    } catch (error) {
      expect(String(error)).toContain('429');
    }
  }
}

async function signIn(wallet: TestWallet, base: string): Promise<TestSocket> {
  const socket = await openSocket(base);
  socket.send('challenge-response', wallet.at(base).sign(PATH));
  expect(await socket.next()).toEqual({ type: 'challenge-success' });
  return socket;
}

/** The answer to a handshake that is not to become a WebSocket. */
async function refusedHandshake(
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

/** As a server sends it, without a reason. */
function closeFrame(code: number): string {
  return Buffer.from([0x88, 2, code >> 8, code & 0xff]).toString('latin1');
}

/** Sends one and the same frame over and over, as fast as it is taken, until the server has enough. */
async function floodUntilGone(raw: RawSocket, message: Buffer): Promise<void> {
  const many = Buffer.concat(Array.from({ length: 1_000 }, () => message));
  while (!raw.connection.closed && raw.connection.writable) {
    if (!raw.send(many)) {
      await new Promise((resolve) => {
        raw.connection.once('drain', resolve).once('close', resolve);
      });
    }
  }
  await raw.gone();
}
