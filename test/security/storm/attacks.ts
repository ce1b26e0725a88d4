import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { request, TestWallet } from '../../helpers/wallet.ts';

interface Victim {
  port: number;
  origin: string;
  /** The recipient of an invoice flood. */
  npub: string;
}

/** Goes on until the process ends. Resolves at full strength, with recipients who can be paid. */
type Attack = (victim: Victim) => Promise<string[]>;

const SLOW_CONNECTIONS = 500;
const IDLE_CONNECTIONS = 1_000;

/** A key may have about twenty sockets, and an address two hundred. */
const DEAF_SOCKETS = 1_000;
const DEAF_KEYS = 100;

/** Each slow connection sends one byte in this time. */
const BYTE_EVERY_MS = 1_000;

/** 20 MB of bodies a second. */
const BODIES_PER_SECOND = 20;
const REQUESTS_PER_SECOND = 100;

const BODY = Buffer.alloc(1024 * 1024, '[');

/** Connections opened at a time. */
const LANES = 20;

const USER_AGENT = 'attacker/1.0';

/** Attackers use many addresses, so limits by address alone do not stop them. */
const addressOf = (index: number) => `127.0.2.${1 + (index % 250)}`;

const ATTACKS = {
  slowHeaders: (victim) => dribble(victim, `GET /api/v2/info HTTP/1.1\r\nHost: x\r\nX-Slow: `),

  slowBodies: async (victim) =>
    dribble(victim, `${await patch(victim)}Content-Length: 30000\r\n\r\n{"lockQuotes":`),

  idleConnections: async (victim) => {
    await many(IDLE_CONNECTIONS, (index) => open(victim, index));
    return [];
  },

  /** Sockets that authenticate and then never read. */
  deafSockets: async (victim) => {
    const keys = Array.from({ length: DEAF_KEYS }, () => new TestWallet(victim.origin));
    await many(DEAF_SOCKETS, (index) => openDeafSocket(victim, index, keys));
    return keys.map(({ npub }) => npub);
  },

  bodyBombs: async (victim) => {
    const head = await patch(victim);
    return repeat(BODIES_PER_SECOND, victim, (socket, index) => {
      const isChunked = index % 2 !== 0;
      socket.write(
        isChunked
          ? `${head}Transfer-Encoding: chunked\r\n\r\n${BODY.length.toString(16)}\r\n`
          : `${head}Content-Length: ${BODY.length}\r\n\r\n`,
      );
      socket.end(BODY);
    });
  },

  /** Quote sockets that never authenticate. */
  handshakes: (victim) =>
    repeat(REQUESTS_PER_SECOND, victim, (socket) => {
      socket.write(
        'GET /api/v2/ws/quote HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
          'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
      );
    }),

  /** Invoices of one recipient. */
  invoices: (victim) =>
    repeat(REQUESTS_PER_SECOND, victim, (socket) => {
      const path = `/.well-known/lnurlp/${victim.npub}?amount=1000`;
      socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    }),
} satisfies Record<string, Attack>;

export type AttackName = keyof typeof ATTACKS;

/** This program is an attacker in a process of its own, so that its work does not delay those who measure. */
process.once('message', ({ attack, victim }: { attack: AttackName; victim: Victim }) => {
  void ATTACKS[attack](victim).then((npubs) => process.send?.(npubs));
});
process.once('disconnect', () => process.exit());

async function dribble(victim: Victim, beginning: string): Promise<string[]> {
  const begin = async (index: number) => {
    const socket = await open(victim, index);
    socket.write(beginning);
    const dribbling = setInterval(() => socket.write('a'), BYTE_EVERY_MS);
    socket.once('close', () => {
      clearInterval(dribbling);
      void delay(BYTE_EVERY_MS).then(() => begin(index));
    });
  };
  await many(SLOW_CONNECTIONS, begin);
  return [];
}

async function openDeafSocket(
  { origin }: Victim,
  index: number,
  keys: readonly TestWallet[],
): Promise<void> {
  const socket = new WebSocket(`${origin.replace(/^http/, 'ws')}/api/v2/ws/quote`, {
    localAddress: addressOf(index),
  });
  socket.on('error', () => undefined);
  await once(socket, 'message');
  const payload = keys[index % keys.length]?.sign('/api/v2/ws/quote');
  socket.send(JSON.stringify({ type: 'challenge-response', payload }));
  const [data] = await once(socket, 'message');
  if (JSON.parse(String(data)).type !== 'challenge-success') {
    throw new Error(`a socket was rejected: ${data}`);
  }
  socket.pause();
}

/** The head of an authenticated request, without the length of its body. */
async function patch({ origin }: Victim): Promise<string> {
  const path = '/api/v2/auth/nip98';
  const authorization = new TestWallet(origin).sign(path);
  const { body } = await request(origin, path, {
    headers: { authorization, 'user-agent': USER_AGENT },
  });
  return (
    `PATCH /api/v2/user/lock HTTP/1.1\r\nHost: x\r\nUser-Agent: ${USER_AGENT}\r\n` +
    `Authorization: Bearer ${body.data.token}\r\n`
  );
}

async function open({ port }: Victim, index: number): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port, localAddress: addressOf(index) });
  // Responses are read so that the connection can end.
  socket.resume();
  socket.on('error', () => undefined);
  await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
  return socket;
}

async function many(count: number, begin: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < count) {
      next += 1;
      await begin(next);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

/** Opens connections at this rate until the process ends. */
async function repeat(
  perSecond: number,
  victim: Victim,
  act: (socket: Socket, index: number) => void,
): Promise<string[]> {
  let next = 0;
  setInterval(() => {
    next += 1;
    const index = next;
    void open(victim, index).then((socket) => act(socket, index));
  }, 1000 / perSecond);
  return [];
}
