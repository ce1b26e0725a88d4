import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { RecipientClient, requestJson } from '../../helpers/recipients/recipient-client.ts';

interface AttackTarget {
  port: number;
  origin: string;
  npub: string;
}

/**
 * Attacks until the process exits. Resolves when the attack is at full strength, with the npubs of the recipients
 * whose quote sockets it opened.
 */
type Attack = (target: AttackTarget) => Promise<string[]>;

const SLOW_CONNECTIONS = 500;
const BYTE_INTERVAL_MS = 1_000;

const IDLE_CONNECTIONS = 1_000;

/** Below the default limits, which are about 20 sockets per key and 200 per address. */
const NON_READING_SOCKETS = 1_000;
const NON_READING_KEYS = 100;

const LARGE_BODY = Buffer.alloc(1024 * 1024, '[');
const LARGE_BODIES_PER_SECOND = 20;

const REQUESTS_PER_SECOND = 100;

const USER_AGENT = 'attacker/1.0';

/** Returns one of many addresses, because limits per address would stop an attack from a single one. */
const sourceAddress = (index: number) => `127.0.2.${1 + (index % 250)}`;

const ATTACKS = {
  slowHeaders: (target) =>
    sendByteByByte(target, `GET /api/v2/info HTTP/1.1\r\nHost: x\r\nX-Slow: `),

  slowBodies: async (target) =>
    sendByteByByte(
      target,
      `${await buildPatchHead(target)}Content-Length: 30000\r\n\r\n{"lockQuotes":`,
    ),

  idleConnections: async (target) => {
    await runConcurrently(IDLE_CONNECTIONS, (index) => openConnection(target, index));
    return [];
  },

  nonReadingSockets: async ({ origin }) => {
    const wallets = Array.from({ length: NON_READING_KEYS }, () => new RecipientClient(origin));
    await runConcurrently(NON_READING_SOCKETS, (index) =>
      openNonReadingSocket(wallets[index % NON_READING_KEYS] as RecipientClient, index),
    );
    return wallets.map(({ npub }) => npub);
  },

  largeBodies: async (target) => {
    const head = await buildPatchHead(target);
    return repeatAtRate(LARGE_BODIES_PER_SECOND, target, (socket, index) => {
      const isChunked = index % 2 !== 0;
      socket.write(
        isChunked
          ? `${head}Transfer-Encoding: chunked\r\n\r\n${LARGE_BODY.length.toString(16)}\r\n`
          : `${head}Content-Length: ${LARGE_BODY.length}\r\n\r\n`,
      );
      socket.end(LARGE_BODY);
    });
  },

  unauthenticatedSockets: (target) =>
    repeatAtRate(REQUESTS_PER_SECOND, target, (socket) => {
      socket.write(
        'GET /api/v2/ws/quote HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
          'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
      );
    }),

  invoices: (target) =>
    repeatAtRate(REQUESTS_PER_SECOND, target, (socket) => {
      const path = `/.well-known/lnurlp/${target.npub}?amount=1000`;
      socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    }),
} satisfies Record<string, Attack>;

export type AttackName = keyof typeof ATTACKS;

// The attacker is a separate process, so that its work does not delay the measurements of the test.
process.once('message', ({ attack, target }: { attack: AttackName; target: AttackTarget }) => {
  void ATTACKS[attack](target).then((npubs) => process.send?.(npubs));
});
process.once('disconnect', () => process.exit());

async function sendByteByByte(target: AttackTarget, start: string): Promise<string[]> {
  const openSlowConnection = async (index: number) => {
    const socket = await openConnection(target, index);
    socket.write(start);
    const timer = setInterval(() => socket.write('a'), BYTE_INTERVAL_MS);
    socket.once('close', () => {
      clearInterval(timer);
      void delay(BYTE_INTERVAL_MS).then(() => openSlowConnection(index));
    });
  };
  await runConcurrently(SLOW_CONNECTIONS, openSlowConnection);
  return [];
}

async function openNonReadingSocket(wallet: RecipientClient, index: number): Promise<void> {
  const socket = new WebSocket(`${wallet.origin.replace(/^http/, 'ws')}/api/v2/ws/quote`, {
    localAddress: sourceAddress(index),
  });
  socket.on('error', () => undefined);
  await once(socket, 'message');
  const payload = wallet.signRequest('/api/v2/ws/quote');
  socket.send(JSON.stringify({ type: 'challenge-response', payload }));
  const [data] = await once(socket, 'message');
  if (JSON.parse(String(data)).type !== 'challenge-success') {
    throw new Error(`a socket was rejected: ${data}`);
  }
  socket.pause();
}

async function buildPatchHead({ origin }: AttackTarget): Promise<string> {
  const path = '/api/v2/auth/nip98';
  const authorization = new RecipientClient(origin).signRequest(path);
  const { body } = await requestJson(origin, path, {
    headers: { authorization, 'user-agent': USER_AGENT },
  });
  return (
    `PATCH /api/v2/user/lock HTTP/1.1\r\nHost: x\r\nUser-Agent: ${USER_AGENT}\r\n` +
    `Authorization: Bearer ${body.data.token}\r\n`
  );
}

async function openConnection({ port }: AttackTarget, index: number): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port, localAddress: sourceAddress(index) });
  // A connection closes only after all received data is read.
  socket.resume();
  socket.on('error', () => undefined);
  await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
  return socket;
}

async function runConcurrently(
  count: number,
  task: (index: number) => Promise<unknown>,
): Promise<void> {
  let index = 0;
  const worker = async () => {
    while (index < count) {
      index += 1;
      await task(index);
    }
  };
  await Promise.all(Array.from({ length: 20 }, worker));
}

async function repeatAtRate(
  perSecond: number,
  target: AttackTarget,
  useConnection: (socket: Socket, index: number) => void,
): Promise<string[]> {
  let count = 0;
  setInterval(() => {
    const index = count++;
    void openConnection(target, index).then((socket) => useConnection(socket, index));
  }, 1_000 / perSecond);
  return [];
}
