import { once } from 'node:events';
import { Agent, get } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { TestWallet } from '../helpers/wallet.ts';

/** What the load is to do; the first message to it. */
export interface LoadOrder {
  /** Two processes of one service: requests go to the first one until it is not ready any more. */
  first: string;
  second: string;
  /** Keys of the recipients, hex: payers pay them, and each has his part of the sockets. */
  secretKeys: string[];
  sockets: number;
  requestsPerSecond: number;
}

/** What became of it; the answer to the second message. */
export interface LoadReport {
  /** Requests with the answer that they should have, by the process that gave it. */
  answered: { first: number; second: number };
  /** Why each other one has none. */
  cut: string[];
  /** Invoices that payers got. */
  invoices: string[];
  /** Sockets that the first process closed after an `error` message, those that it closed without, and all at the second. */
  sockets: { told: number; untold: number; atSecond: number };
}

/** How often a balancer asks whether a process is ready: it finds out late, as they do. */
const CHECK_EVERY_MS = 500;

/** Wallets come in groups. */
const SOCKETS_AT_ONCE = 50;

/** Those that clients keep alive between requests; every other request comes on a new one. */
const KEPT_CONNECTIONS = 20;

/** Of so many requests one is for an invoice: mints are asked no more than they like. */
const INVOICE_EVERY = 10;

const [order] = (await once(process, 'message')) as [LoadOrder];
const wallets = order.secretKeys.map(
  (key) => new TestWallet(order.first, Date.now, Buffer.from(key, 'hex')),
);
const handshakes = wallets.map((wallet) => wallet.sign('/api/v2/ws/quote'));
const readings = wallets.map((wallet) => wallet.sign('/api/v2/wallet/quotes'));
const kept = new Agent({ keepAlive: true, maxSockets: KEPT_CONNECTIONS });
const report: LoadReport = {
  answered: { first: 0, second: 0 },
  cut: [],
  invoices: [],
  sockets: { told: 0, untold: 0, atSecond: 0 },
};
const underWay = new Set<Promise<void>>();
const allWalletsMoved = Promise.withResolvers<void>();
let target: 'first' | 'second' = 'first';
let count = 0;

for (let opened = 0; opened < order.sockets; opened += SOCKETS_AT_ONCE) {
  await Promise.all(Array.from({ length: SOCKETS_AT_ONCE }, (_, index) => openSocket(index)));
}
const payers = setInterval(begin, 1_000 / order.requestsPerSecond);
while (report.answered.first < order.requestsPerSecond) {
  await delay(CHECK_EVERY_MS);
}
process.send?.('under way');
const ending = once(process, 'message');
do {
  await delay(CHECK_EVERY_MS);
} while (await isReady());
target = 'second';
await ending;
await allWalletsMoved.promise;
clearInterval(payers);
await Promise.all(underWay);
process.send?.(report, () => process.exit(0));

async function isReady(): Promise<boolean> {
  const response = await fetch(`${order.first}/health/ready`).catch(() => null);
  return response?.status === 200;
}

function begin(): void {
  count += 1;
  const request = ask(count, target).catch((error: Error) => {
    report.cut.push(`${target}: ${error.message}`);
  });
  underWay.add(request);
  void request.then(() => underWay.delete(request));
}

/** One request, as different ones as come. */
async function ask(number: number, where: 'first' | 'second'): Promise<void> {
  const who = number % wallets.length;
  const address = `/.well-known/lnurlp/${wallets[who]?.npub}`;
  const agent = number % 2 === 0 ? kept : false;
  if (number % INVOICE_EVERY === 0) {
    const { pr } = JSON.parse(await answer(where, `${address}?amount=21000`, { agent }));
    report.invoices.push(String(pr));
  } else if (number % INVOICE_EVERY < INVOICE_EVERY / 2) {
    const authorization = readings[who] ?? '';
    await answer(where, '/api/v2/wallet/quotes', { agent, headers: { authorization } });
  } else {
    await answer(where, address, { agent });
  }
  report.answered[where] += 1;
}

async function answer(
  where: 'first' | 'second',
  path: string,
  options: { agent: Agent | false; headers?: Record<string, string> },
): Promise<string> {
  const [response] = await once(get(`${order[where]}${path}`, options), 'response');
  const body = await text(response);
  if (response.statusCode !== 200 || body.includes('ERROR')) {
    throw new Error(`${response.statusCode} ${body}`);
  }
  return body;
}

/** A wallet's socket at the first process; the wallet goes on at the second one, as wallets do after an `error`. */
async function openSocket(index: number): Promise<void> {
  const socket = await signIn(order.first, index);
  let isTold = false;
  socket.on('message', (data) => {
    isTold ||= JSON.parse(String(data)).type === 'error';
  });
  socket.once('close', () => {
    report.sockets[isTold ? 'told' : 'untold'] += 1;
    void signIn(order.second, index).then(() => {
      report.sockets.atSecond += 1;
      if (report.sockets.atSecond === order.sockets) {
        allWalletsMoved.resolve();
      }
    });
  });
}

/** Resolves when the wallet is known. */
async function signIn(base: string, index: number): Promise<WebSocket> {
  const socket = new WebSocket(`${base.replace('http', 'ws')}/api/v2/ws/quote`);
  await once(socket, 'message');
  const payload = handshakes[index % handshakes.length];
  socket.send(JSON.stringify({ type: 'challenge-response', payload }));
  const [message] = await once(socket, 'message');
  if (JSON.parse(String(message)).type !== 'challenge-success') {
    throw new Error(`a wallet was not let in: ${message}`);
  }
  return socket;
}
