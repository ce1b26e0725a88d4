import { type AddressInfo, createServer } from 'node:net';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { createLogger } from '../../src/log.ts';
import { createGuardedWebSocketConnector } from '../../src/net/guarded-websocket.ts';
import { type EventSigner, loadEventSigner, loadEventVerifier } from '../../src/nostr/events.ts';
import { RelayPool } from '../../src/relays/relay-pool.ts';
import { ReceiptDispatcher } from '../../src/zaps/receipt-dispatcher.ts';
import { useTestDatabase } from '../helpers/database/test-database.ts';
import { eventually } from '../helpers/eventually.ts';
import { startFakeRelay, startScriptedRelay } from '../helpers/relays/start-fake-relay.ts';
import {
  countDeliveriesByState,
  insertZapReceipts,
} from '../helpers/relays/zap-receipt-deliveries.ts';
import { TEST_ZAP_SECRET_KEY } from '../helpers/relays/zap-requests.ts';
import { TestClock } from '../helpers/test-clock.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;

/** Limits the wait for relays that do not respond. Others respond in time even on a busy machine. */
const RESPONSE_TIMEOUT_MS = 2_000;

const database = useTestDatabase();
let signer: EventSigner;
let clock: TestClock;

beforeAll(async () => {
  signer = await loadEventSigner(TEST_ZAP_SECRET_KEY);
});

beforeEach(async () => {
  await database.db.deleteFrom('quotes').execute();
  await database.db.deleteFrom('relays').execute();
  clock = new TestClock();
});

describe('the dispatcher', () => {
  it('delivers all other receipts to a relay that disconnects when it gets a certain one', async () => {
    const receipts = await insertDueReceipts(40, { url: 'wss://placeholder.example' });
    const acceptedIds = new Set<string>();
    const relay = await startScriptedRelay((send, [, { id }], socket) => {
      if (id === receipts[0]?.id) {
        socket.terminate();
      } else if (socket.readyState === socket.OPEN) {
        acceptedIds.add(id);
        send(['OK', id, true, '']);
      }
    });
    await database.db.updateTable('zap_receipt_deliveries').set({ relay: relay.url }).execute();
    const dispatcher = await createDispatcher();
    dispatcher.start();
    await eventually(async () => {
      clock.advance(MINUTE_MS);
      dispatcher.wake([]);
      expect(await countDeliveriesByState(database, relay.url)).toEqual({ accepted: 39, open: 1 });
    });
    expect(acceptedIds.size).toBe(39);
  });

  it('delivers to a relay behind more relays in backoff than one scan looks at', async () => {
    const relay = await startFakeRelay();
    // They come before the URL of the relay.
    const failingUrls = Array.from({ length: 1_500 }, (_, i) => `ws://0${10_000 + i}.example`);
    await insertDueReceipts(1, ...failingUrls.map((url) => ({ url })), relay);
    await database.db
      .insertInto('relays')
      .values(failingUrls.map((url) => ({ url, failures: 1, backoff_until: clock.nowMs + 1 })))
      .execute();
    const dispatcher = await createDispatcher();
    dispatcher.start();
    await waitForDeliveryCounts(relay.url, { accepted: 1 });
  });

  it('delivers a new receipt before older ones to relays that never respond', async () => {
    const silent = createServer().listen(0);
    onTestFinished(() => void silent.close());
    const { port } = silent.address() as AddressInfo;
    const silentUrls = Array.from({ length: 100 }, (_, i) => `ws://127.0.1.${i + 1}:${port}`);
    await insertDueReceipts(1, ...silentUrls.map((url) => ({ url })));
    const dispatcher = await createDispatcher();
    dispatcher.wake(silentUrls);
    const relay = await startFakeRelay();
    const url = relay.url.replace('127.0.0.1', 'localhost');
    await insertDueReceipts(1, { url });
    dispatcher.wake([url]);
    await waitForDeliveryCounts(url, { accepted: 1 });
    const failed = database.db.selectFrom('relays').select('url').where('failures', '>', 0);
    expect((await failed.execute()).length).toBeLessThan(64);
  });
});

async function createDispatcher() {
  const log = createLogger('silent');
  const connect = createGuardedWebSocketConnector({
    allowPrivateNetworks: true,
    handshakeTimeoutMs: RESPONSE_TIMEOUT_MS,
  });
  const relayPool = new RelayPool(connect, {
    signer,
    verifyEvent: await loadEventVerifier(),
    clock: clock.now,
    log,
    responseTimeoutMs: RESPONSE_TIMEOUT_MS,
  });
  const dispatcher = new ReceiptDispatcher({
    db: database.db,
    clock: clock.now,
    monotonicMs: () => performance.now(),
    log,
    relayPool,
    operatorRelays: [],
  });
  onTestFinished(() => dispatcher.stop());
  return dispatcher;
}

let receiptCount = 0;

function insertDueReceipts(count: number, ...relays: readonly { url: string }[]) {
  const events = Array.from({ length: count }, () => {
    receiptCount += 1;
    const tags = [['description', `zap ${receiptCount}`]];
    return JSON.stringify(
      signer.sign({ kind: 9735, content: '', created_at: 1_750_000_000, tags }),
    );
  });
  return insertZapReceipts(database, {
    events,
    relays: relays.map(({ url }) => url),
    createdAtMs: clock.nowMs,
  });
}

async function waitForDeliveryCounts(
  relayUrl: string,
  counts: Record<string, number>,
): Promise<void> {
  await eventually(async () =>
    expect(await countDeliveriesByState(database, relayUrl)).toEqual(counts),
  );
}
