import { once } from 'node:events';
import { Agent, request as httpRequest } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { TestWallet } from '../../helpers/wallet.ts';
import type { Window } from './latency.ts';
import type { Stage } from './stage.ts';

/** Each at an address of its own, so that all together stay far below what one address may do. */
const CLIENTS = 20;

/** One request each time, whatever became of the one before: a slow service is not asked less often. */
const REQUEST_EVERY_MS = 6;

/** Of so many requests, one is for an invoice, which is paid and told on a socket. Each client has a turn. */
const REQUESTS_PER_INVOICE = 61;

/** Of so many, one is a ping on a quote socket. */
const REQUESTS_PER_PING = 7;

/** None of them is somebody whom everybody pays. */
const RECIPIENTS_PER_CLIENT = 4;

/** Slow answers are measured; one that takes as long as this has been forgotten. */
const ANSWER_TIMEOUT_MS = 30_000;

/** More than a client needs while it is answered in time. */
const CONNECTIONS_PER_CLIENT = 4;

const USER_AGENT = 'good/1.0';

/** What a client can do for one of its keys. */
interface Person {
  wallet: TestWallet;
  jwt: string;
  socket: WebSocket;
  /** Resolvers of those who wait for a message: `pong`, or the quote of an `update`. */
  waiting: Map<string, () => void>;
}

interface Client {
  agent: Agent;
  localAddress: string;
  people: readonly Person[];
}

/**
 * Wallets and payers who behave: they look addresses up, read their lists, ask for invoices, pay them
 * and wait for the update. They never stop, and what each answer took is kept.
 */
export class GoodClients implements AsyncDisposable {
  readonly #stage: Stage;
  readonly #clients: readonly Client[];
  readonly #sockets: WebSocket[] = [];
  readonly #ended = new AbortController();
  readonly #work: Promise<void>;
  #answers: number[] = [];
  #updates: number[] = [];
  readonly #troubles = new Set<string>();

  static async open(stage: Stage): Promise<GoodClients> {
    const sockets: WebSocket[] = [];
    const clients = await Promise.all(
      Array.from({ length: CLIENTS }, (_unused, index) => openClient(stage, index, sockets)),
    );
    return new GoodClients(stage, clients, sockets);
  }

  private constructor(stage: Stage, clients: readonly Client[], sockets: WebSocket[]) {
    this.#stage = stage;
    this.#clients = clients;
    this.#sockets = sockets;
    this.#work = this.#keepAsking();
  }

  /** What went wrong since it was last asked. */
  troubles(): string[] {
    const troubles = [...this.#troubles];
    this.#troubles.clear();
    return troubles;
  }

  /** Measures so long. */
  async window(ms: number): Promise<Window> {
    this.#answers = [];
    this.#updates = [];
    await delay(ms);
    return { answers: this.#answers, updates: this.#updates };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended.abort();
    await this.#work;
    for (const socket of this.#sockets) {
      socket.terminate();
    }
    for (const { agent } of this.#clients) {
      agent.destroy();
    }
  }

  async #keepAsking(): Promise<void> {
    const underWay = new Set<Promise<void>>();
    const start = performance.now();
    for (let turn = 0; !this.#ended.signal.aborted; turn += 1) {
      const client = this.#clients[turn % CLIENTS] as Client;
      const round = Math.floor(turn / CLIENTS);
      const person = client.people[round % RECIPIENTS_PER_CLIENT] as Person;
      const asking = this.#ask(turn, client, person).catch((error: Error) => {
        this.#troubles.add(error.message);
      });
      underWay.add(asking);
      void asking.then(() => underWay.delete(asking));
      const early = start + turn * REQUEST_EVERY_MS - performance.now();
      if (early > 0) {
        await delay(early);
      }
    }
    await Promise.all(underWay);
  }

  async #ask(turn: number, client: Client, person: Person): Promise<void> {
    const address = `/.well-known/lnurlp/${person.wallet.npub}`;
    if (turn % REQUESTS_PER_INVOICE === 0) {
      const { pr } = await this.#get(client, `${address}?amount=21000`);
      const paidAt = performance.now();
      await told(person, this.#stage.mint.pay(pr).id);
      this.#updates.push(performance.now() - paidAt);
    } else if (turn % REQUESTS_PER_PING === 0 && !person.waiting.has('pong')) {
      const askedAt = performance.now();
      person.socket.send('{"type":"ping"}');
      await told(person, 'pong');
      this.#answers.push(performance.now() - askedAt);
    } else if (turn % 2 === 0) {
      await this.#get(client, address);
    } else {
      await this.#get(client, '/api/v2/wallet/quotes', {
        authorization: `Bearer ${person.jwt}`,
        'user-agent': USER_AGENT,
      });
    }
  }

  async #get(client: Client, path: string, headers: Record<string, string> = {}) {
    const startedAt = performance.now();
    const body = await get(this.#stage.port, client, path, headers);
    this.#answers.push(performance.now() - startedAt);
    return body;
  }
}

async function openClient(stage: Stage, index: number, sockets: WebSocket[]): Promise<Client> {
  const localAddress = `127.0.1.${index + 1}`;
  const agent = new Agent({ keepAlive: true, localAddress, maxSockets: CONNECTIONS_PER_CLIENT });
  const people = await Promise.all(
    Array.from({ length: RECIPIENTS_PER_CLIENT }, async (): Promise<Person> => {
      const wallet = new TestWallet(stage.origin);
      const { data } = await get(stage.port, { agent }, '/api/v2/auth/nip98', {
        authorization: wallet.sign('/api/v2/auth/nip98'),
        'user-agent': USER_AGENT,
      });
      const waiting: Person['waiting'] = new Map();
      const socket = await listen(wallet, localAddress, (what) => waiting.get(what)?.());
      sockets.push(socket);
      return { wallet, jwt: data.token, socket, waiting };
    }),
  );
  return { agent, localAddress, people };
}

async function listen(
  wallet: TestWallet,
  localAddress: string,
  onMessage: (pongOrQuoteId: string) => void,
): Promise<WebSocket> {
  const socket = new WebSocket(`${wallet.base.replace(/^http/, 'ws')}/api/v2/ws/quote`, {
    localAddress,
  });
  const { promise, resolve, reject } = Promise.withResolvers<WebSocket>();
  socket.on('message', (data) => {
    const { type, payload } = JSON.parse(String(data));
    if (type === 'challenge') {
      const answer = wallet.sign('', 'GET', payload);
      socket.send(JSON.stringify({ type: 'challenge-response', payload: answer }));
    } else if (type === 'challenge-success') {
      resolve(socket);
    } else if (type === 'update') {
      onMessage(payload.quoteId);
    } else if (type === 'pong') {
      onMessage('pong');
    } else {
      reject(new Error(`a good client was told ${payload}`));
    }
  });
  socket.on('error', reject);
  return await promise;
}

/** Waits for a message on a person's socket. @throws where it never comes */
async function told(person: Person, what: string): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  person.waiting.set(what, resolve);
  const late = delay(ANSWER_TIMEOUT_MS, 'late', { ref: false });
  const waited = await Promise.race([promise, late]);
  person.waiting.delete(what);
  if (waited === 'late') {
    throw new Error(`a good client was never told of its ${what === 'pong' ? 'ping' : 'payment'}`);
  }
}

/** @throws where the answer is not 200 */
async function get(
  port: number,
  { agent }: Pick<Client, 'agent'>,
  path: string,
  headers: Record<string, string>,
) {
  const signal = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
  const request = httpRequest({ host: '127.0.0.1', port, path, agent, headers, signal });
  request.end();
  const [response] = await once(request, 'response');
  const body = await text(response);
  if (response.statusCode !== 200 || body.includes('"status":"ERROR"')) {
    throw new Error(`a good client got ${response.statusCode} ${body.slice(0, 200)}`);
  }
  return JSON.parse(body);
}
