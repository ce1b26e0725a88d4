import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { type PostgresCluster, startPostgresCluster } from '../../scripts/postgres-cluster.ts';
import { startService } from '../../src/service.ts';
import { createTemporaryPostgresDatabase } from '../helpers/database/temporary-postgres-database.ts';
import { eventually } from '../helpers/eventually.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { type FailureResponse, RequestRepeater } from '../helpers/network/request-repeater.ts';
import {
  RecipientClient,
  requestJson,
  type TestQuoteSocket,
} from '../helpers/recipients/recipient-client.ts';
import { hasLevel, LogCapture } from '../helpers/service/log-capture.ts';
import { createTestConfig, setMint } from '../helpers/service/test-environment.ts';

/** A request waits at most 5 s for the database. This is longer, because the machine may be busy. */
const MAX_RESPONSE_MS = 7_000;

const TEST_TIMEOUT_MS = 180_000;

/** How often each client must fail before some payments during the crash, and again afterwards. */
const FAILURES_PER_CLIENT = 2;

/** The services may log that the database and each background job failed, but not each broken connection or request. */
const MAX_WARNINGS = 40;

let cluster: PostgresCluster;

beforeAll(async () => {
  // Durable, so that a crash loses no committed data.
  cluster = await startPostgresCluster({ durable: true });
});

afterAll(() => cluster.stop());

it(
  'answers with errors in the format of each API while PostgreSQL is down, and afterwards reports all payments',
  async () => {
    // The recipients do not use the default mint, so nothing needs to listen at its URL.
    const { url } = await createTemporaryPostgresDatabase(cluster.url, 'template0');
    const config = createTestConfig('http://127.0.0.1:1', { DATABASE_URL: url });
    const logs = [new LogCapture('info'), new LogCapture('info')];
    const services = await Promise.all(logs.map(({ log }) => startService(config, { log })));
    const origins = services.map(({ publicOrigin }) => publicOrigin);
    const alice = await createRecipient(origins, { hasWebSocket: true });
    const bob = await createRecipient(origins, { hasWebSocket: false });
    const { verify } = await alice.requestInvoice();
    const invoicePath = `/.well-known/lnurlp/${alice.wallet.npub}?amount=21000`;
    const clients = [
      new RequestRepeater(LNURL_ERROR, () => requestJson(origins[1] ?? '', invoicePath)),
      new RequestRepeater(LNURL_ERROR, () => requestJson('', verify)),
      new RequestRepeater(NIP05_ERROR, () =>
        requestJson(origins[0] ?? '', '/.well-known/nostr.json?name=alice'),
      ),
      new RequestRepeater(API_ERROR, () => alice.wallet.get('/api/v2/wallet/quotes?limit=50')),
      new RequestRepeater(API_ERROR, () =>
        bob.wallet.send('PATCH', LOCK_PATH, { lockQuotes: false }),
      ),
    ];
    onTestFinished(async () => {
      await Promise.all(clients.map((client) => client.stop()));
      await Promise.all(services.map((service) => service.stop()));
    });
    const forAllClients = (act: (client: RequestRepeater) => Promise<void>) =>
      Promise.all(clients.map(act));
    await forAllClients((client) => client.waitForSuccesses(5));

    const openInvoices = [await alice.requestInvoice(), await bob.requestInvoice()];
    alice.mint.pay((await alice.requestInvoice()).pr);
    bob.mint.pay((await bob.requestInvoice()).pr);
    await cluster.halt('immediate');
    await forAllClients((client) => client.waitForFailures(FAILURES_PER_CLIENT));
    await Promise.all(logs.map((log) => log.waitForText('watcher_database_failed')));
    const requestReadiness = () => requestJson(origins[0] ?? '', '/health/ready');
    await eventually(async () =>
      expect(await requestReadiness()).toMatchObject({
        status: 503,
        body: {
          status: 'failing',
          checks: { database: 'failing', migrations: 'unknown', listen: 'failing' },
        },
      }),
    );
    expect((await requestJson(origins[0] ?? '', '/health/live')).status).toBe(200);
    const response = await requestJson(origins[0] ?? '', '/.well-known/nostr.json?name=bob');
    expect(response.headers.get('retry-after')).toBe('2');
    // Quote sockets need no database, so wallets can stay connected.
    await (await bob.wallet.openSocket()).close();
    alice.mint.pay(openInvoices[0]?.pr ?? '');
    bob.mint.pay(openInvoices[1]?.pr ?? '');
    await forAllClients((client) => client.waitForFailures(FAILURES_PER_CLIENT));
    await cluster.resume();
    await forAllClients((client) => client.waitForSuccesses(5));
    await eventually(async () => expect((await requestReadiness()).body.status).toBe('ready'));

    for (const { wallet, mint, sockets, requestInvoice } of [alice, bob]) {
      mint.pay((await requestInvoice()).pr);
      const paidQuotes = [...mint.quotes.values()].filter(({ state }) => state === 'PAID');
      const paidIds = paidQuotes.map(({ id }) => id).toSorted();
      expect(paidIds).toHaveLength(3);
      await Promise.all(sockets.map((socket) => receiveUpdates(socket, paidIds)));
      const listedQuotes = await wallet.listPaidQuotes();
      expect(listedQuotes.map((quote) => quote['quoteId']).toSorted()).toEqual(paidIds);
    }
    await forAllClients((client) => client.stop());
    const slowestResponseMs = Math.max(...clients.map((client) => client.slowestResponseMs));
    expect(slowestResponseMs).toBeLessThan(MAX_RESPONSE_MS);
    const warnings = logs.flatMap(({ lines }) => lines.filter((line) => hasLevel(line, 'warn')));
    expect(warnings.length).toBeLessThanOrEqual(MAX_WARNINGS);
  },
  TEST_TIMEOUT_MS,
);

async function createRecipient(origins: readonly string[], switches: { hasWebSocket: boolean }) {
  const mint = await startTestMint(switches);
  const wallet = new RecipientClient(origins[0] ?? '');
  await setMint(wallet, mint.url);
  const sockets = await Promise.all(
    origins.map((origin) => wallet.withOrigin(origin).openSocket()),
  );
  const requestInvoice = async (): Promise<{ pr: string; verify: string }> => {
    const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
    return (await requestJson(wallet.origin, path)).body;
  };
  return { wallet, mint, sockets, requestInvoice };
}

const LOCK_PATH = '/api/v2/user/lock';

const REASON = expect.any(String);
const API_ERROR: FailureResponse = {
  status: 503,
  body: { error: true, code: 'database_unavailable', message: REASON },
};
const LNURL_ERROR: FailureResponse = { status: 503, body: { status: 'ERROR', reason: REASON } };
const NIP05_ERROR: FailureResponse = {
  status: 200,
  body: { error: true, code: 'database_unavailable', message: REASON },
};

async function receiveUpdates(socket: TestQuoteSocket, quoteIds: readonly string[]): Promise<void> {
  const missing = new Set(quoteIds);
  while (missing.size > 0) {
    missing.delete((await socket.nextMessage()).payload.quoteId);
  }
}
