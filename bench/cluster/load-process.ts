import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, type Dispatcher, Pool } from 'undici';
import { WebSocket } from 'ws';
import { JwtIssuer } from '../../src/http/jwt.ts';
import {
  RecipientClient,
  type SocketMessage,
} from '../../test/helpers/recipients/recipient-client.ts';
import { JWT_SECRET } from '../harness/servers.ts';
import type { Settlement } from './mint-process.ts';
import {
  createSecretKey,
  getMintIndex,
  getPayerAddress,
  getWalletAddress,
  USER_AGENT,
} from './simulated-wallets.ts';

/**
 * A load generator: the wallets and payers of one process. Reads {@link LoadSettings} from standard input as JSON, and
 * prints a line with its `controlUrl`.
 *
 * - `POST /open` opens the sockets of all wallets.
 * - `POST /pay` with {@link PaymentOrder} pays invoices of these wallets, and returns {@link LoadResult}.
 */

export interface LoadSettings {
  /** The numbers of the wallets. */
  wallets: { first: number; count: number };
  proxyUrls: string[];
  mintCount: number;
  mintControlUrl: string;
}

export interface PaymentOrder {
  paymentsPerSecond: number;
  seconds: number;
}

/** Durations are in milliseconds, one for each payment. */
export interface LoadResult {
  invoicesMs: number[];
  /** From the settlement at the mint until the socket received `update`. */
  updatesMs: number[];
  listsMs: number[];
  /** From the issue at the mint until the socket received the second `update`. */
  issueUpdatesMs: number[];
  /** How much later than planned each payment started, because this process was busy. */
  delaysMs: number[];
  /** Payments whose `update` the wallet received, but which its list did not contain. */
  missingInList: number;
  /** What went wrong, and how often. */
  problems: Record<string, number>;
}

/** The time from an invoice to its payment: about that of a one-tap zap. */
const PAYMENT_DELAY_MS = 300;

const UPDATE_TIMEOUT_MS = 30_000;

const CONCURRENT_HANDSHAKES = 32;

const RECONNECT_DELAY_MS = 1_000;

/** The servers of payers' wallets. With the default limits, each could request ten invoices a second. */
const PAYER_COUNT = 100;

const CONNECTIONS_PER_PAYER = 4;

/** Spreads consecutive payments over all wallets. A prime number. */
const WALLET_STRIDE = 7_919;

const settings = (await json(process.stdin)) as LoadSettings;
const issuer = new JwtIssuer(JWT_SECRET, null);
const mintControl = new Pool(settings.mintControlUrl, { connections: 32 });
const payers = Array.from({ length: PAYER_COUNT }, (_, payer) => {
  const options = { localAddress: getPayerAddress(payer), connections: CONNECTIONS_PER_PAYER };
  return new Pool(chooseProxy(payer), options);
});

/** The updates about a quote: the first one after its payment, the second one after its issue. Resolved with their times. */
interface QuoteUpdates {
  paid: PromiseWithResolvers<number>;
  issued: PromiseWithResolvers<number>;
  count: number;
}

const updatesByQuoteId = new Map<string, QuoteUpdates>();
let result = createResult();

class Wallet {
  readonly #number: number;
  readonly #client: RecipientClient;
  readonly #proxyUrl: string;
  readonly #localAddress: string;

  constructor(number: number) {
    this.#number = number;
    this.#proxyUrl = chooseProxy(number);
    this.#client = new RecipientClient(this.#proxyUrl, Date.now, createSecretKey(number));
    this.#localAddress = getWalletAddress(number);
  }

  /** Opens the socket and authenticates. If the service closes the socket later, opens it again. */
  async open(): Promise<void> {
    let isAuthenticated = false;
    const url = `${this.#proxyUrl.replace('http', 'ws')}/api/v2/ws/quote`;
    const socket = new WebSocket(url, { localAddress: this.#localAddress });
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    socket.on('error', reject);
    socket.on('close', (code) => {
      countProblem(`a socket was closed with code ${code}`);
      reject(new Error(`a socket was closed with code ${code}`));
      if (isAuthenticated) {
        setTimeout(() => {
          this.open().catch((error: Error) => countProblem(`reconnect: ${error.message}`));
        }, RECONNECT_DELAY_MS);
      }
    });
    socket.on('message', (data) => {
      const { type, payload } = JSON.parse(String(data)) as SocketMessage;
      if (type === 'update') {
        recordUpdate(payload.quoteId);
      } else if (type === 'challenge') {
        const signed = this.#client.signRequest('', 'GET', payload);
        socket.send(JSON.stringify({ type: 'challenge-response', payload: signed }));
      } else if (type === 'challenge-success') {
        isAuthenticated = true;
        resolve();
      } else {
        reject(new Error(`unexpected message: ${data}`));
      }
    });
    await promise;
  }

  /** Receives a payment, reads the list, and collects the ecash. */
  async receivePayment(payer: Dispatcher): Promise<void> {
    const startedAtMs = performance.now();
    const path = `/.well-known/lnurlp/${this.#client.npub}?amount=21000`;
    const invoice = await sendRequest('invoice', payer, path);
    const request = /"pr":"(lnbc[0-9a-z]+)"/.exec(invoice)?.[1];
    if (request === undefined) {
      throw new Error(`invoice: ${invoice}`);
    }
    result.invoicesMs.push(performance.now() - startedAtMs);
    await delay(PAYMENT_DELAY_MS);
    const settlement = JSON.parse(await this.#controlMint('pay', request)) as Settlement;
    const { quoteId } = settlement;
    const updates = getUpdates(quoteId);
    const paidUpdateAtMs = await waitForUpdate('the update of a payment', updates.paid.promise);
    result.updatesMs.push(paidUpdateAtMs - settlement.settledAtMs);
    await this.#readList(quoteId);
    const issuedAtMs = nowMs();
    await this.#controlMint('issue', quoteId);
    const issueUpdateAtMs = await waitForUpdate('the update of an issue', updates.issued.promise);
    result.issueUpdatesMs.push(issueUpdateAtMs - issuedAtMs);
    updatesByQuoteId.delete(quoteId);
  }

  /** Opens a connection for the request, as a wallet does that was in the background. */
  async #readList(quoteId: string): Promise<void> {
    const nowSeconds = Math.floor(Date.now() / 1000);
    const token = await issuer.issue(this.#client.pubkey, USER_AGENT, nowSeconds);
    const startedAtMs = performance.now();
    const client = new Client(this.#proxyUrl, { localAddress: this.#localAddress });
    try {
      const list = await sendRequest('list', client, '/api/v2/wallet/quotes', {
        authorization: `Bearer ${token}`,
        'user-agent': USER_AGENT,
      });
      result.listsMs.push(performance.now() - startedAtMs);
      result.missingInList += list.includes(`"quoteId":"${quoteId}"`) ? 0 : 1;
    } finally {
      await client.close();
    }
  }

  async #controlMint(action: 'pay' | 'issue', body: string): Promise<string> {
    const path = `/${getMintIndex(this.#number, settings.mintCount)}/${action}`;
    const response = await mintControl.request({ method: 'POST', path, body });
    return readText(action, response);
  }
}

const wallets = Array.from(
  { length: settings.wallets.count },
  (_, i) => new Wallet(settings.wallets.first + i),
);

const server = createServer((incoming, response) => {
  execute(incoming)
    .then((value) => response.end(JSON.stringify(value)))
    .catch((error: Error) => response.writeHead(500).end(error.message));
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const controlUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
process.stdout.write(`${JSON.stringify({ controlUrl })}\n`);

async function execute(incoming: IncomingMessage): Promise<unknown> {
  if (incoming.url === '/open') {
    await openSockets();
    return null;
  }
  result = createResult();
  await pay((await json(incoming)) as PaymentOrder);
  return result;
}

async function openSockets(): Promise<void> {
  const remaining = wallets.values();
  // The workers share the iterator, so that each takes the next wallet.
  const openRemaining = async () => {
    for (const wallet of remaining) {
      await wallet.open();
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_HANDSHAKES }, openRemaining));
}

/** Starts payments at a steady rate, however long they take, and waits until all are done. */
async function pay({ paymentsPerSecond, seconds }: PaymentOrder): Promise<void> {
  const startedAtMs = performance.now();
  const payments = Array.from({ length: Math.round(paymentsPerSecond * seconds) }, async (_, i) => {
    const dueAtMs = startedAtMs + (i * 1000) / paymentsPerSecond;
    await delay(Math.max(0, dueAtMs - performance.now()));
    result.delaysMs.push(performance.now() - dueAtMs);
    const wallet = wallets[(i * WALLET_STRIDE) % wallets.length] as Wallet;
    await wallet
      .receivePayment(payers[i % payers.length] as Pool)
      .catch((error: Error) => countProblem(error.message));
  });
  await Promise.all(payments);
}

async function sendRequest(
  name: string,
  dispatcher: Dispatcher,
  path: string,
  headers: Record<string, string> = {},
): Promise<string> {
  return readText(name, await dispatcher.request({ method: 'GET', path, headers }));
}

async function readText(name: string, response: Dispatcher.ResponseData): Promise<string> {
  const body = await response.body.text();
  if (response.statusCode !== 200) {
    throw new Error(`${name}: ${response.statusCode} ${body.replaceAll(/\s+/g, ' ')}`);
  }
  return body;
}

function getUpdates(quoteId: string): QuoteUpdates {
  return updatesByQuoteId.getOrInsertComputed(quoteId, () => ({
    paid: Promise.withResolvers<number>(),
    issued: Promise.withResolvers<number>(),
    count: 0,
  }));
}

function recordUpdate(quoteId: string): void {
  const updates = getUpdates(quoteId);
  updates.count += 1;
  const isFirst = updates.count === 1;
  const update = isFirst ? updates.paid : updates.issued;
  update.resolve(nowMs());
}

async function waitForUpdate(name: string, update: Promise<number>): Promise<number> {
  const timeout = delay(UPDATE_TIMEOUT_MS, null, { ref: false });
  const receivedAtMs = await Promise.race([update, timeout]);
  if (receivedAtMs === null) {
    throw new Error(`${name} did not arrive within ${UPDATE_TIMEOUT_MS / 1000} s`);
  }
  return receivedAtMs;
}

/** Returns milliseconds since 1970, with fractions, which the processes can compare. */
function nowMs(): number {
  return performance.timeOrigin + performance.now();
}

function chooseProxy(number: number): string {
  return settings.proxyUrls[number % settings.proxyUrls.length] ?? '';
}

function countProblem(problem: string): void {
  result.problems[problem] = (result.problems[problem] ?? 0) + 1;
}

function createResult(): LoadResult {
  return {
    invoicesMs: [],
    updatesMs: [],
    listsMs: [],
    issueUpdatesMs: [],
    delaysMs: [],
    missingInList: 0,
    problems: {},
  };
}
