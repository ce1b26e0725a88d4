import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { TestWallet } from '../../helpers/wallet.ts';

/** What an attacker knows. */
export interface Victim {
  port: number;
  origin: string;
  /** Whose invoices a flood asks for. */
  npub: string;
}

/** Begins, and goes on until the process ends. Resolves in full swing, with keys that could be paid. */
type Attack = (victim: Victim) => Promise<string[]>;

const SLOW_CONNECTIONS = 500;
const IDLE_CONNECTIONS = 1_000;
const DEAF_SOCKETS = 1_000;
/** A key may have some twenty sockets, and an address two hundred. */
const DEAF_KEYS = 100;

/** Each slow connection says one byte in this time. */
const BYTE_EVERY_MS = 1_000;

const HEADER_BOMBS_PER_SECOND = 40;

/** 20 MB a second: more is a question of who has more cores. */
const BODY_BOMBS_PER_SECOND = 20;

const CONNECTIONS_PER_SECOND = 150;
const HANDSHAKES_PER_SECOND = 100;
const INVOICES_PER_SECOND = 100;

const HEADER_BOMB_BYTES = 64_000;
const BODY_BOMB_BYTES = 1024 * 1024;

/** So many connections are opened at a time. */
const OPENING = 20;

const USER_AGENT = 'attacker/1.0';

/** Attackers have many addresses: limits by address alone do not stop them. */
const ADDRESSES = 250;
const addressOf = (index: number) => `127.0.2.${1 + (index % ADDRESSES)}`;

export const ATTACKS = {
  /** Headers, one byte at a time. */
  slowloris: async (victim) => {
    await dribble(victim, (index) => `GET /api/v2/info?${index} HTTP/1.1\r\nHost: x\r\nX-Slow: `);
    return [];
  },

  /** Bodies, one byte at a time, of requests that are signed. */
  slowBodies: async (victim) => {
    const { jwt } = await newToken(victim);
    await dribble(
      victim,
      () =>
        `PATCH /api/v2/user/lock HTTP/1.1\r\nHost: x\r\nUser-Agent: ${USER_AGENT}\r\n` +
        `Authorization: Bearer ${jwt}\r\nContent-Length: 30000\r\n\r\n{"lockQuotes":`,
    );
    return [];
  },

  idleConnections: async (victim) => {
    await many(IDLE_CONNECTIONS, (index) => open(victim, index));
    return [];
  },

  /** Sockets that prove their keys and then never read. */
  deafSockets: async (victim) => {
    const keys = Array.from({ length: DEAF_KEYS }, () => new TestWallet(victim.origin));
    const answers = keys.map((key) => key.sign('/api/v2/ws/quote'));
    await many(DEAF_SOCKETS, (index) =>
      openDeafSocket(victim, index, answers[index % DEAF_KEYS] as string),
    );
    return keys.map(({ npub }) => npub);
  },

  headerBombs: async (victim) => {
    repeat(HEADER_BOMBS_PER_SECOND, async (index) => {
      const socket = await open(victim, index);
      const name = index % 2 === 0 ? 'x'.repeat(HEADER_BOMB_BYTES) : '';
      const small = index % 2 === 0 ? '' : 'X: y\r\n'.repeat(HEADER_BOMB_BYTES / 8);
      socket.end(`GET /api/v2/info HTTP/1.1\r\nHost: x\r\n${small}X-Cashu: ${name}\r\n\r\n`);
    });
    return [];
  },

  bodyBombs: async (victim) => {
    const { jwt } = await newToken(victim);
    const bomb = Buffer.alloc(BODY_BOMB_BYTES, '[');
    repeat(BODY_BOMBS_PER_SECOND, async (index) => {
      const socket = await open(victim, index);
      const length =
        index % 2 === 0 ? `Content-Length: ${bomb.length}` : 'Transfer-Encoding: chunked';
      socket.write(
        `PATCH /api/v2/user/lock HTTP/1.1\r\nHost: x\r\nUser-Agent: ${USER_AGENT}\r\n` +
          `Authorization: Bearer ${jwt}\r\n${length}\r\n\r\n`,
      );
      if (index % 2 !== 0) {
        socket.write(`${bomb.length.toString(16)}\r\n`);
      }
      socket.end(bomb);
    });
    return [];
  },

  churn: async (victim) => {
    repeat(CONNECTIONS_PER_SECOND, async (index) => {
      const socket = await open(victim, index);
      if (index % 3 === 0) {
        socket.destroy();
      } else {
        socket.end('GET /api/v2/info HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
      }
    });
    return [];
  },

  /** Quote sockets that are opened and never prove a key. */
  handshakes: async (victim) => {
    repeat(HANDSHAKES_PER_SECOND, async (index) => {
      const socket = await open(victim, index);
      socket.write(
        'GET /api/v2/ws/quote HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
          'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
      );
    });
    return [];
  },

  /** Requests for invoices, all of one recipient. */
  invoices: async (victim) => {
    repeat(INVOICES_PER_SECOND, async (index) => {
      const socket = await open(victim, index);
      socket.write(
        `GET /.well-known/lnurlp/${victim.npub}?amount=1000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
      );
    });
    return [];
  },
} satisfies Record<string, Attack>;

export type AttackName = keyof typeof ATTACKS;

async function dribble(victim: Victim, beginning: (index: number) => string): Promise<void> {
  const begin = async (index: number) => {
    const socket = await open(victim, index);
    socket.write(beginning(index));
    const dribbling = setInterval(() => socket.write('a'), BYTE_EVERY_MS);
    socket.once('close', () => {
      clearInterval(dribbling);
      // Whoever is turned away comes again.
      void delay(BYTE_EVERY_MS).then(() => begin(index));
    });
  };
  await many(SLOW_CONNECTIONS, begin);
}

async function openDeafSocket({ origin }: Victim, index: number, answer: string): Promise<void> {
  const socket = new WebSocket(`${origin.replace(/^http/, 'ws')}/api/v2/ws/quote`, {
    localAddress: addressOf(index),
  });
  socket.on('error', () => undefined);
  await once(socket, 'message');
  socket.send(JSON.stringify({ type: 'challenge-response', payload: answer }));
  const [data] = await once(socket, 'message');
  if (JSON.parse(String(data)).type !== 'challenge-success') {
    throw new Error(`a socket was refused: ${data}`);
  }
  socket.pause();
}

async function newToken({ origin }: Victim): Promise<{ jwt: string }> {
  const response = await fetch(`${origin}/api/v2/auth/nip98`, {
    headers: {
      authorization: new TestWallet(origin).sign('/api/v2/auth/nip98'),
      'user-agent': USER_AGENT,
    },
  });
  const { data } = (await response.json()) as { data: { token: string } };
  return { jwt: data.token };
}

async function open({ port }: Victim, index: number): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port, localAddress: addressOf(index) });
  // What is answered is of no interest; it is read, unless it is said otherwise, so that it ends.
  socket.resume();
  socket.on('error', () => undefined);
  await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
  return socket;
}

/** So many, a few at a time. */
async function many(count: number, begin: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < count) {
      next += 1;
      await begin(next);
    }
  };
  await Promise.all(Array.from({ length: OPENING }, lane));
}

/** So many a second, for good. */
function repeat(perSecond: number, act: (index: number) => Promise<void>): void {
  let index = 0;
  setInterval(() => {
    index += 1;
    act(index).catch(() => undefined);
  }, 1000 / perSecond);
}
