import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type Cluster, startCluster } from '../../scripts/postgres-cluster.ts';
import { TestMint } from '../../src/demo/test-mint.ts';
import { type Service, startService } from '../../src/service.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { chooseMint } from '../helpers/own-mint.ts';
import { type ApiAnswer, request, type TestSocket, TestWallet } from '../helpers/wallet.ts';
import { testConfig } from '../helpers/world.ts';

/** PostgreSQL goes away while two processes work on it, and nobody helps them when it is back. */

/** A request that waits for a free connection gives up after 5 s; the rest is for a busy machine. */
const A_FEW_SECONDS_MS = 7_000;

/** pino's. */
const WARN = 40;

/** Two processes, a restart, and a mint without a socket, which is asked every few seconds. */
const TEST_TIMEOUT_MS = 180_000;

/** Each client fails so often before something happens to the payments, and again after it. */
const FAILURES = 20;

/**
 * What both processes may say of an outage: of each of ten pooled connections that broke, of each
 * request that was using one, of the tries to connect again. Of the hundreds that fail later, nothing.
 */
const MAX_WARNINGS = 100;

let cluster: Cluster;

beforeAll(async () => {
  // A crash must cost here what it costs an operator: nothing that was committed.
  cluster = await startCluster({ durable: true });
});

afterAll(() => cluster.stop());

describe.each([
  ['is restarted', 'fast'],
  ['crashes', 'immediate'],
] as const)('while PostgreSQL %s under load', (_what, how) => {
  it(
    'requests fail in their dialect, and afterwards no payment and no update is missing',
    async () => {
      const { here, there, logs } = await startTwoProcesses();
      const alice = await openRecipient(here, there, { socket: true });
      const bob = await openRecipient(here, there, { socket: false });
      const clients = await openClients(alice, bob, here, there);
      await Promise.all(clients.map((client) => client.succeeds(5)));

      const unpaid = [await alice.askInvoice(), await bob.askInvoice()];
      pay([await alice.askInvoice(), await bob.askInvoice()]);
      await cluster.halt(how);
      await Promise.all(clients.map((client) => client.fails(FAILURES)));
      await Promise.all(logs.map((log) => log.until('watcher_database_failed')));
      pay(unpaid);
      await Promise.all(clients.map((client) => client.fails(FAILURES)));
      await cluster.resume();

      await Promise.all(clients.map((client) => client.succeeds(5)));
      pay([await alice.askInvoice(), await bob.askInvoice()]);
      for (const { wallet, mint, sockets } of [alice, bob]) {
        const paid = paidAt(mint);
        expect(paid).toHaveLength(3);
        await Promise.all(sockets.map((socket) => hearsOfEach(socket, paid)));
        const listed = await wallet.listQuotes();
        expect(listed.map((quote) => quote['quoteId']).toSorted()).toEqual(paid);
      }
      await Promise.all(clients.map((client) => client.stop()));
      const slowestMs = Math.max(...clients.map((client) => client.slowestMs));
      expect(slowestMs).toBeLessThan(A_FEW_SECONDS_MS);
      expect(logs.flatMap(warnings).length).toBeLessThanOrEqual(MAX_WARNINGS);
    },
    TEST_TIMEOUT_MS,
  );
});

/** Two processes that share the database, and their logs. */
async function startTwoProcesses() {
  // The mint of nobody: each recipient chooses one.
  const config = testConfig('http://127.0.0.1:1', { DATABASE_URL: await newDatabase() });
  const logs = [new LogCapture('info'), new LogCapture('info')] as const;
  const [here, there] = await Promise.all([
    startService(config, { log: logs[0].log }),
    startService(config, { log: logs[1].log }),
  ]);
  onTestFinished(async () => {
    await Promise.all([here.stop(), there.stop()]);
  });
  return { here, there, logs };
}

/** The url of an empty database. */
async function newDatabase(): Promise<string> {
  const name = `nutpost_${randomBytes(6).toString('hex')}`;
  const client = new pg.Client({ connectionString: cluster.url });
  await client.connect();
  await client.query(`create database ${name}`);
  await client.end();
  return new URL(name, cluster.url).href;
}

type Recipient = Awaited<ReturnType<typeof openRecipient>>;

/** A recipient with a mint of its own, and a quote socket at either process. */
async function openRecipient(here: Service, there: Service, switches: { socket: boolean }) {
  const mint = await TestMint.start({ switches });
  onTestFinished(() => mint.close());
  const wallet = new TestWallet(here.publicOrigin);
  await chooseMint(wallet, mint.url);
  const sockets = [await wallet.openSocket(), await wallet.at(there.publicOrigin).openSocket()];
  const requestInvoice = (service: Service) =>
    request(service.url, `/.well-known/lnurlp/${wallet.npub}?amount=21000`);
  return {
    wallet,
    mint,
    sockets,
    requestInvoice,
    askInvoice: async () => {
      const { body } = await requestInvoice(here);
      return { pay: () => mint.pay(body.pr), verify: String(body.verify) };
    },
  };
}

/** Payers and wallets that never pause; between them they ask all that needs the database. */
async function openClients(alice: Recipient, bob: Recipient, here: Service, there: Service) {
  const verifyPath = new URL((await alice.askInvoice()).verify).pathname;
  const clients = [
    new Client(LNURL, () => alice.requestInvoice(there)),
    new Client(LNURL, () => bob.requestInvoice(here)),
    new Client(LNURL, () => request(there.url, verifyPath)),
    new Client(NAME_LOOKUP, () => request(here.url, '/.well-known/nostr.json?name=alice')),
    new Client(API, () => alice.wallet.get('/api/v2/wallet/quotes?limit=50')),
    new Client(API, () => bob.wallet.get('/api/v2/user/info')),
    new Client(API, () => bob.wallet.send('PATCH', '/api/v2/user/lock', { lockQuotes: false })),
  ];
  onTestFinished(async () => {
    await Promise.all(clients.map((client) => client.stop()));
  });
  return clients;
}

/** How an answer tells that all went well, and what it is where the database is away. */
interface Dialect {
  isSuccess: (answer: ApiAnswer) => boolean;
  failure: Pick<ApiAnswer, 'status' | 'body'>;
}

const UNAVAILABLE = expect.any(String);

const API: Dialect = {
  isSuccess: ({ status, body }) => status === 200 && body.error === false,
  failure: { status: 500, body: { error: true, message: UNAVAILABLE } },
};

const LNURL: Dialect = {
  isSuccess: ({ status, body }) => status === 200 && typeof body.pr === 'string',
  failure: { status: 500, body: { status: 'ERROR', reason: UNAVAILABLE } },
};

const NAME_LOOKUP: Dialect = {
  isSuccess: ({ status, body }) => status === 200 && body.names !== undefined,
  failure: { status: 200, body: { error: true, message: UNAVAILABLE } },
};

/** Asks one thing again and again; an answer that is neither a success nor a clean failure ends it. */
class Client {
  slowestMs = 0;
  #successes = 0;
  #failures = 0;
  #isStopping = false;
  #wake = Promise.withResolvers<void>();
  readonly #ended: Promise<void>;

  constructor(dialect: Dialect, ask: () => Promise<ApiAnswer>) {
    this.#ended = this.#askOnAndOn(dialect, ask);
    // Whoever waits for something, and in the end `stop`, is told.
    this.#ended.catch(() => this.#wake.resolve());
  }

  /** So many requests more succeed. */
  async succeeds(times: number): Promise<void> {
    const enough = this.#successes + times;
    await this.#until(() => this.#successes >= enough);
  }

  /** So many requests more fail, as they should. */
  async fails(times: number): Promise<void> {
    const enough = this.#failures + times;
    await this.#until(() => this.#failures >= enough);
  }

  /** @throws where an answer was not clean */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#ended;
  }

  async #until(isEnough: () => boolean): Promise<void> {
    while (!isEnough()) {
      await Promise.race([this.#wake.promise, this.#ended]);
    }
  }

  async #askOnAndOn(dialect: Dialect, ask: () => Promise<ApiAnswer>): Promise<void> {
    while (!this.#isStopping) {
      const startedAtMs = performance.now();
      const answer = await ask();
      this.slowestMs = Math.max(this.slowestMs, performance.now() - startedAtMs);
      if (dialect.isSuccess(answer)) {
        this.#successes += 1;
      } else {
        expect({ status: answer.status, body: answer.body }).toEqual(dialect.failure);
        this.#failures += 1;
      }
      this.#wake.resolve();
      this.#wake = Promise.withResolvers();
    }
  }
}

function pay(invoices: readonly { pay: () => void }[]): void {
  for (const invoice of invoices) {
    invoice.pay();
  }
}

/** Ids of all quotes that were paid at a mint. */
function paidAt(mint: TestMint): string[] {
  return [...mint.quotes.values()]
    .filter((quote) => quote.state === 'PAID')
    .map((quote) => quote.id)
    .toSorted();
}

/** The lines that an operator looks at. */
function warnings(log: LogCapture): string[] {
  return log.lines.filter((line) => JSON.parse(line).level >= WARN);
}

/** Resolves when a socket has had an update of each of these quotes. */
async function hearsOfEach(socket: TestSocket, quoteIds: readonly string[]): Promise<void> {
  const missing = new Set(quoteIds);
  while (missing.size > 0) {
    missing.delete((await socket.next()).payload.quoteId);
  }
}
