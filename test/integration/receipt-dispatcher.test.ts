import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { WebSocketServer } from 'ws';
import { createLogger } from '../../src/log.ts';
import { createGuardedWebSocketConnector } from '../../src/net/guarded-websocket.ts';
import { type EventSigner, loadEventSigner, loadEventVerifier } from '../../src/nostr/events.ts';
import { Store } from '../../src/store.ts';
import { ReceiptDispatcher } from '../../src/zaps/receipt-dispatcher.ts';
import { RelayPool } from '../../src/zaps/relay-pool.ts';
import { useDatabase } from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { findUnreachableRelayUrl, startRelay } from '../helpers/start-test-relay.ts';
import { TestClock } from '../helpers/test-clock.ts';
import {
  countDeliveriesByState,
  insertReceipts,
  readRelayRow,
} from '../helpers/zap-receipt-outbox.ts';
import { TEST_ZAP_SECRET_KEY } from '../helpers/zap-requests.ts';

/** Delivery from the outbox to relays that behave in different ways. */

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;

/** For relays that do not respond; a working relay responds in time even on a busy machine. */
const TIMEOUT_MS = 2_000;

const database = useDatabase();
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

describe('receipts', () => {
  it('all reach a relay that limits the events per minute', async () => {
    const relay = await startRelay({ eventsPerMinute: 25, now: clock.now });
    await plant(60, relay);
    const dispatcher = await newDispatcher();
    dispatcher.start();
    for (const arrived of [25, 50]) {
      await untilRest(relay.url);
      expect(relay.events.size).toBe(arrived);
      clock.advance(10 * MINUTE_MS);
      dispatcher.wake();
    }
    await untilCounts(relay.url, { accepted: 60 });
  });

  it('reach a relay that disconnects at one event, except that event', async () => {
    const receipts = await plant(40, { url: 'wss://planted.example' });
    const relay = await startPickyRelay(receipts[0]?.id ?? '');
    await database.db.updateTable('zap_receipt_deliveries').set({ relay: relay.url }).execute();
    const dispatcher = await newDispatcher();
    dispatcher.start();
    await eventually(async () => {
      clock.advance(MINUTE_MS);
      dispatcher.wake();
      expect(await countDeliveriesByState(database, relay.url)).toEqual({ accepted: 39, open: 1 });
    });
    expect(relay.accepted.size).toBe(39);
  });
});

describe('a dead relay', () => {
  it.each([
    ['connection refused', () => findUnreachableRelayUrl()],
    ['no response', async () => (await startRelay({ eventHandling: 'ignore' })).url],
    ['no response', async () => (await startRelay({ eventHandling: 'hang_up' })).url],
  ])('rests and delays no other (%s)', async (reason, startDead) => {
    const dead = await startDead();
    const relay = await startRelay();
    await plant(100, { url: dead }, relay);
    const dispatcher = await newDispatcher();
    dispatcher.start();
    await untilCounts(relay.url, { accepted: 100 });
    await untilRest(dead);
    expect(await readRelayRow(database, dead)).toMatchObject({
      failures: 1,
      backoff_until: clock.nowMs + 5 * SECOND_MS,
      last_result: reason,
    });
    expect(await countDeliveriesByState(database, dead)).toEqual({ open: 100 });
  });

  it('gets all receipts when it is back, and logs each change once', async () => {
    const relay = await startRelay();
    const lines = new LogCapture('info');
    await plant(1, relay);
    const dispatcher = await newDispatcher({ log: lines.log });
    dispatcher.start();
    await untilCounts(relay.url, { accepted: 1 });
    await relay.stop();
    await plant(100, relay);
    for (let failures = 1; failures <= 3; failures += 1) {
      dispatcher.wake();
      await eventually(async () =>
        expect(await readRelayRow(database, relay.url)).toMatchObject({ failures }),
      );
      clock.advance(MINUTE_MS);
    }
    await relay.restart();
    await untilCounts(relay.url, { accepted: 101 });
    await eventually(async () =>
      expect(await readRelayRow(database, relay.url)).toMatchObject({
        failures: 0,
        last_result: null,
      }),
    );
    expect(eventsIn(lines)).toEqual(['relay_failing', 'relay_recovered']);
  });
});

describe('the dispatcher', () => {
  it('opens few connections to a host that is named by many URLs', async () => {
    const relay = await startRelay();
    const urls = Array.from({ length: 60 }, (_, index) => ({ url: `${relay.url}/?${index}` }));
    await plant(1, ...urls);
    const dispatcher = await newDispatcher();
    dispatcher.start();
    await eventually(() => {
      dispatcher.wake();
      expect([...relay.receiveCounts.values()]).toEqual([60]);
    });
    // Eight are active or idle, and some are closing.
    expect(relay.connections.mostOpen).toBeLessThan(20);
  });

  it('shares the outbox with other processes, and sends each receipt once', async () => {
    const relays = await Promise.all(Array.from({ length: 4 }, () => startRelay()));
    const dispatchers = await Promise.all([newDispatcher(), newDispatcher()]);
    await plant(100, ...relays);
    for (const dispatcher of dispatchers) {
      dispatcher.start();
      dispatcher.wake();
    }
    for (const relay of relays) {
      await untilCounts(relay.url, { accepted: 100 });
      expect(new Set(relay.receiveCounts.values())).toEqual(new Set([1]));
    }
  });
});

/** The dispatcher of a process, with its connections. */
async function newDispatcher({ timeoutMs = TIMEOUT_MS, log = createLogger('silent') } = {}) {
  const relayPool = new RelayPool({
    connect: createGuardedWebSocketConnector({
      allowPrivateNetworks: true,
      handshakeTimeoutMs: timeoutMs,
    }),
    signer,
    verifyEvent: await loadEventVerifier(),
    clock: clock.now,
    log,
    timeouts: { responseTimeoutMs: timeoutMs },
  });
  const dispatcher = new ReceiptDispatcher({
    deliveries: new Store(database.db).receiptDeliveries,
    clock: clock.now,
    log,
    relayPool,
    operatorRelays: [],
    allowPrivateNetworks: true,
  });
  onTestFinished(() => dispatcher.stop());
  return dispatcher;
}

/** Disconnects at one event, and accepts all others. */
async function startPickyRelay(poison: string) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  const accepted = new Set<string>();
  server.on('connection', (socket) => {
    socket.on('message', (data) => {
      const [, { id }] = JSON.parse(String(data));
      if (id === poison) {
        socket.terminate();
      } else if (socket.readyState === socket.OPEN) {
        accepted.add(id);
        socket.send(JSON.stringify(['OK', id, true, '']));
      }
    });
  });
  onTestFinished(() => {
    for (const socket of server.clients) {
      socket.terminate();
    }
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `ws://127.0.0.1:${port}`, accepted };
}

let serial = 0;

/** Stores signed receipts that are due now. */
function plant(count: number, ...relays: readonly { url: string }[]) {
  const texts = Array.from({ length: count }, () => {
    serial += 1;
    const tags = [['description', `zap ${serial}`]];
    return JSON.stringify(
      signer.sign({ kind: 9735, content: '', created_at: 1_750_000_000, tags }),
    );
  });
  return insertReceipts(database, {
    events: texts,
    relays: relays.map(({ url }) => url),
    createdAtMs: clock.nowMs,
  });
}

async function untilCounts(relay: string, counts: Record<string, number>): Promise<void> {
  await eventually(async () =>
    expect(await countDeliveriesByState(database, relay)).toEqual(counts),
  );
}

async function untilRest(relay: string): Promise<void> {
  await eventually(async () =>
    expect((await readRelayRow(database, relay))?.backoff_until).toBeGreaterThan(clock.nowMs),
  );
}

/** Returns the logged events about relays. */
function eventsIn({ lines }: LogCapture): unknown[] {
  return lines.map((line) => JSON.parse(line).event).filter((event) => event?.startsWith('relay_'));
}
