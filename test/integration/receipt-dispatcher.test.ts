import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { WebSocketServer } from 'ws';
import { openLog } from '../../src/log.ts';
import { guardedSocketConnector } from '../../src/net/guarded-socket.ts';
import { type EventSigner, loadEventSigner, loadEventVerifier } from '../../src/nostr/events.ts';
import { Store } from '../../src/store.ts';
import { ReceiptDispatcher } from '../../src/zaps/receipt-dispatcher.ts';
import { RelayPool } from '../../src/zaps/relay-pool.ts';
import { useDatabase } from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { refusingPort, startRelay } from '../helpers/relays.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { countsAt, plantReceipts, relayRow } from '../helpers/zap-outbox.ts';
import { TEST_ZAP_SECRET_KEY } from '../helpers/zap-requests.ts';

/** From the outbox to relays of all kinds. */

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;

/** For relays that answer nothing; a working relay answers in time on a busy machine too. */
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
  it('all reach a relay that limits how many it takes a minute', async () => {
    const relay = await startRelay({ eventsPerMinute: 25, now: clock.now });
    await plant(60, relay);
    const dispatcher = await newDispatcher();
    dispatcher.start();
    for (const arrived of [25, 50]) {
      await untilRest(relay.url);
      expect(relay.events.size).toBe(arrived);
      clock.advance(10 * MINUTE_MS);
      dispatcher.notice();
    }
    await untilCounts(relay.url, { accepted: 60 });
  });

  it('reach a relay that disconnects at one of them, except that one', async () => {
    const receipts = await plant(40, { url: 'wss://planted.example' });
    const relay = await startPickyRelay(receipts[0]?.id ?? '');
    await database.db.updateTable('zap_receipt_deliveries').set({ relay: relay.url }).execute();
    const dispatcher = await newDispatcher();
    dispatcher.start();
    await eventually(async () => {
      clock.advance(MINUTE_MS);
      dispatcher.notice();
      expect(await countsAt(database, relay.url)).toEqual({ accepted: 39, open: 1 });
    });
    expect(relay.accepted.size).toBe(39);
  });
});

describe('a dead relay', () => {
  it.each([
    ['connection refused', () => refusingPort()],
    ['no answer', async () => (await startRelay({ eventFate: 'ignore' })).url],
    ['no answer', async () => (await startRelay({ eventFate: 'hang_up' })).url],
  ])('rests and delays no other (%s)', async (reason, startDead) => {
    const dead = await startDead();
    const relay = await startRelay();
    await plant(100, { url: dead }, relay);
    const dispatcher = await newDispatcher();
    dispatcher.start();
    await untilCounts(relay.url, { accepted: 100 });
    await untilRest(dead);
    expect(await relayRow(database, dead)).toMatchObject({
      failures: 1,
      rest_until: clock.nowMs + 5 * SECOND_MS,
      last_word: reason,
    });
    expect(await countsAt(database, dead)).toEqual({ open: 100 });
  });

  it('gets everything when it is back, and each change is logged once', async () => {
    const relay = await startRelay();
    const lines = new LogCapture('info');
    await plant(1, relay);
    const dispatcher = await newDispatcher({ log: lines.log });
    dispatcher.start();
    await untilCounts(relay.url, { accepted: 1 });
    await relay.stop();
    await plant(100, relay);
    for (let failures = 1; failures <= 3; failures += 1) {
      dispatcher.notice();
      await eventually(async () =>
        expect(await relayRow(database, relay.url)).toMatchObject({ failures }),
      );
      clock.advance(MINUTE_MS);
    }
    await relay.restart();
    await untilCounts(relay.url, { accepted: 101 });
    await eventually(async () =>
      expect(await relayRow(database, relay.url)).toMatchObject({ failures: 0, last_word: null }),
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
      dispatcher.notice();
      expect([...relay.timesSent.values()]).toEqual([60]);
    });
    // Eight that are used or idle, and some that are closing.
    expect(relay.connections.mostOpen).toBeLessThan(20);
  });

  it('shares the outbox with other processes: each receipt is sent once', async () => {
    const relays = await Promise.all(Array.from({ length: 4 }, () => startRelay()));
    const dispatchers = await Promise.all([newDispatcher(), newDispatcher()]);
    await plant(100, ...relays);
    for (const dispatcher of dispatchers) {
      dispatcher.start();
      dispatcher.notice();
    }
    for (const relay of relays) {
      await untilCounts(relay.url, { accepted: 100 });
      expect(new Set(relay.timesSent.values())).toEqual(new Set([1]));
    }
  });
});

/** The dispatcher of a process, with its connections. */
async function newDispatcher({ timeoutMs = TIMEOUT_MS, log = openLog('silent') } = {}) {
  const relayPool = new RelayPool({
    connect: guardedSocketConnector({ allowPrivateNetworks: true, handshakeTimeoutMs: timeoutMs }),
    signer,
    verifyEvent: await loadEventVerifier(),
    clock: clock.now,
    log,
    timing: { answerTimeoutMs: timeoutMs },
  });
  const dispatcher = new ReceiptDispatcher({
    deliveries: new Store(database.db).deliveries,
    clock: clock.now,
    log,
    relayPool,
    ownRelays: [],
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
  return plantReceipts(database, {
    texts,
    relays: relays.map(({ url }) => url),
    atMs: clock.nowMs,
  });
}

async function untilCounts(relay: string, counts: Record<string, number>): Promise<void> {
  await eventually(async () => expect(await countsAt(database, relay)).toEqual(counts));
}

async function untilRest(relay: string): Promise<void> {
  await eventually(async () =>
    expect((await relayRow(database, relay))?.rest_until).toBeGreaterThan(clock.nowMs),
  );
}

/** The events of the log, without the milestones of payments. */
function eventsIn({ lines }: LogCapture): unknown[] {
  return lines.map((line) => JSON.parse(line).event).filter((event) => event !== undefined);
}
