import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { type PostgresCluster, startPostgresCluster } from '../../scripts/postgres-cluster.ts';
import { startService } from '../../src/service.ts';
import { eventually } from '../helpers/eventually.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { createPostgresDatabaseFrom } from '../helpers/postgres-database.ts';
import { type ExpectedFailure, RepeatingClient } from '../helpers/repeating-client.ts';
import { startMint } from '../helpers/start-test-mint.ts';
import { setMint, testConfig } from '../helpers/test-environment.ts';
import { requestJson, type TestQuoteSocket, TestWallet } from '../helpers/test-wallet.ts';

/** PostgreSQL crashes while two processes work on it, and comes back. */

/** A request that waits for a free connection gives up after 5 s; the rest is for a busy machine. */
const A_FEW_SECONDS_MS = 7_000;

/** pino's number for WARN. */
const WARN = 40;

const TEST_TIMEOUT_MS = 180_000;

/** Each client fails this often before payments are made, and again afterwards. */
const FAILURES = 20;

/** For broken pooled connections, requests that used one, and reconnects; not for each later failure. */
const MAX_WARNINGS = 100;

let cluster: PostgresCluster;

beforeAll(async () => {
  // A crash loses nothing that was committed, as on an operator's server.
  cluster = await startPostgresCluster({ durable: true });
});

afterAll(() => cluster.stop());

it(
  'returns errors in the format of each API during a crash, and then misses no payment and no update',
  async () => {
    // Each recipient chooses another mint than the default.
    const { url } = await createPostgresDatabaseFrom(cluster.url, 'template0');
    const config = testConfig('http://127.0.0.1:1', { DATABASE_URL: url });
    const logs = [new LogCapture('info'), new LogCapture('info')];
    const services = await Promise.all(logs.map(({ log }) => startService(config, { log })));
    const origins = services.map(({ publicOrigin }) => publicOrigin);
    const alice = await openRecipient(origins, { hasWebSocket: true });
    const bob = await openRecipient(origins, { hasWebSocket: false });
    const { verify } = await alice.askInvoice();
    const address = `/.well-known/lnurlp/${alice.wallet.npub}?amount=21000`;
    const clients = [
      new RepeatingClient(LNURL_ERROR, () => requestJson(origins[1] ?? '', address)),
      new RepeatingClient(LNURL_ERROR, () => requestJson('', verify)),
      new RepeatingClient(NIP05_ERROR, () =>
        requestJson(origins[0] ?? '', '/.well-known/nostr.json?name=alice'),
      ),
      new RepeatingClient(API_ERROR, () => alice.wallet.get('/api/v2/wallet/quotes?limit=50')),
      new RepeatingClient(API_ERROR, () =>
        bob.wallet.send('PATCH', LOCK_PATH, { lockQuotes: false }),
      ),
    ];
    onTestFinished(async () => {
      await Promise.all(clients.map((client) => client.stop()));
      await Promise.all(services.map((service) => service.stop()));
    });
    const all = (wait: (client: RepeatingClient) => Promise<void>) =>
      Promise.all(clients.map(wait));
    await all((client) => client.waitForSuccesses(5));

    const unpaid = [await alice.askInvoice(), await bob.askInvoice()];
    alice.mint.pay((await alice.askInvoice()).pr);
    bob.mint.pay((await bob.askInvoice()).pr);
    await cluster.halt('immediate');
    await all((client) => client.waitForFailures(FAILURES));
    await Promise.all(logs.map((log) => log.waitForText('watcher_database_failed')));
    const ready = () => requestJson(origins[0] ?? '', '/health/ready');
    await eventually(async () =>
      expect(await ready()).toMatchObject({
        status: 503,
        body: {
          status: 'failing',
          checks: { database: 'failing', migrations: 'unknown', listen: 'failing' },
        },
      }),
    );
    expect((await requestJson(origins[0] ?? '', '/health/live')).status).toBe(200);
    alice.mint.pay(unpaid[0]?.pr ?? '');
    bob.mint.pay(unpaid[1]?.pr ?? '');
    await all((client) => client.waitForFailures(FAILURES));
    await cluster.resume();
    await all((client) => client.waitForSuccesses(5));
    await eventually(async () => expect((await ready()).body.status).toBe('ready'));

    for (const { wallet, mint, sockets, askInvoice } of [alice, bob]) {
      mint.pay((await askInvoice()).pr);
      const paid = [...mint.quotes.values()].filter(({ state }) => state === 'PAID');
      const ids = paid.map(({ id }) => id).toSorted();
      expect(ids).toHaveLength(3);
      await Promise.all(sockets.map((socket) => receiveUpdates(socket, ids)));
      const listed = await wallet.listQuotes();
      expect(listed.map((quote) => quote['quoteId']).toSorted()).toEqual(ids);
    }
    await all((client) => client.stop());
    expect(Math.max(...clients.map(({ slowestResponseMs: slowestMs }) => slowestMs))).toBeLessThan(
      A_FEW_SECONDS_MS,
    );
    const warnings = logs.flatMap(({ lines }) => lines.filter((line) => levelOf(line) >= WARN));
    expect(warnings.length).toBeLessThanOrEqual(MAX_WARNINGS);
  },
  TEST_TIMEOUT_MS,
);

/** A recipient with a mint of its own, and a quote socket at each process. */
async function openRecipient(origins: readonly string[], switches: { hasWebSocket: boolean }) {
  const mint = await startMint(switches);
  const wallet = new TestWallet(origins[0] ?? '');
  await setMint(wallet, mint.url);
  const sockets = await Promise.all(
    origins.map((origin) => wallet.withOrigin(origin).openSocket()),
  );
  const askInvoice = async (): Promise<{ pr: string; verify: string }> => {
    const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
    return (await requestJson(wallet.origin, path)).body;
  };
  return { wallet, mint, sockets, askInvoice };
}

const LOCK_PATH = '/api/v2/user/lock';

/** The responses while the database is unavailable. */
const REASON = expect.any(String);
const API_ERROR: ExpectedFailure = { status: 500, body: { error: true, message: REASON } };
const LNURL_ERROR: ExpectedFailure = { status: 500, body: { status: 'ERROR', reason: REASON } };
const NIP05_ERROR: ExpectedFailure = { status: 200, body: { error: true, message: REASON } };

function levelOf(line: string): number {
  return (JSON.parse(line) as { level: number }).level;
}

async function receiveUpdates(socket: TestQuoteSocket, quoteIds: readonly string[]): Promise<void> {
  const missing = new Set(quoteIds);
  while (missing.size > 0) {
    missing.delete((await socket.nextMessage()).payload.quoteId);
  }
}
