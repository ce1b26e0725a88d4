import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import { type EventSigner, loadEventSigner } from '../../src/auth/event-signer.ts';
import { loadEventVerifier } from '../../src/auth/event-verifier.ts';
import { GIVE_UP_AFTER_MS, SLOW_ANSWER_MS } from '../../src/domain/receipt-delivery.ts';
import { type Log, openLog } from '../../src/log.ts';
import { guardedSocketConnector } from '../../src/net/guarded-socket.ts';
import { type PublishAnswer, RelayPool } from '../../src/relays/relay-pool.ts';
import type { Database } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { DeliverZapReceipts } from '../../src/usecases/deliver-zap-receipts.ts';
import { ReceiptCourier } from '../../src/watcher/receipt-courier.ts';
import { eventually } from '../helpers/eventually.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { refusingPort, startRelay } from '../helpers/relays.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { useDatabase } from '../helpers/use-database.ts';
import { countsAt, plantReceipts, relayRow, standingAt } from '../helpers/zap-outbox.ts';
import { TEST_ZAP_SECRET_KEY } from '../helpers/zap-requests.ts';

/** Receipts on their way: the outbox, the courier and its connections, and relays of all kinds. */

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;

/** A relay that says nothing is waited for so long: one that works answers within that, also on a busy machine. */
const ANSWER_TIMEOUT_MS = 2_000;

let database: Database;
let signer: EventSigner;
let clock: TestClock;

useDatabase((opened) => {
  database = opened;
});

beforeAll(async () => {
  signer = await loadEventSigner(TEST_ZAP_SECRET_KEY);
});

beforeEach(async () => {
  await database.db.deleteFrom('quotes').execute();
  await database.db.deleteFrom('relays').execute();
  await database.db.deleteFrom('watch_processes').execute();
  clock = new TestClock();
});

describe('receipts', () => {
  it('reach every relay, each once and as they were signed', async () => {
    const relays = [await startRelay(), await startRelay()];
    const urls = relays.map(({ url }) => url);
    const receipts = await plant(20, urls);
    const { courier } = await post();
    courier.start();
    for (const relay of relays) {
      await relay.waitFor(20);
      await untilCounts(relay.url, { accepted: 20 });
      for (const { id, text } of receipts) {
        expect(JSON.stringify(relay.events.get(id))).toBe(text);
        expect(relay.timesSent.get(id)).toBe(1);
      }
    }
  });

  it('a thousand of them to one relay take one socket', async () => {
    const relay = await startRelay();
    await plant(1_000, [relay.url]);
    const { courier } = await post();
    const startedAtMs = performance.now();
    courier.start();
    await whileTimePasses(() => untilCounts(relay.url, { accepted: 1_000 }));
    await plant(1, [relay.url]);
    courier.notice([relay.url]);
    await whileTimePasses(() => relay.waitFor(1_001));
    expect(relay.connections.mostOpen).toBe(1);
    // On a machine that stands still the relay may have counted as slow, and have been come back to.
    if (performance.now() - startedAtMs < SLOW_ANSWER_MS) {
      expect(relay.connections.opened).toBe(1);
      expect([...relay.timesSent.values()].every((times) => times === 1)).toBe(true);
    }
    expect(relay.connections.opened).toBeLessThan(10);
    expect(relay.events.size).toBe(1_001);
  });

  it('that a relay has already count as there', async () => {
    const relay = await startRelay();
    const [receipt] = await plant(1, [relay.url]);
    relay.store(JSON.parse(receipt?.text ?? ''));
    const { courier } = await post();
    courier.start();
    await untilCounts(relay.url, { accepted: 1 });
    expect(await lastWord(relay.url, receipt?.id)).toContain('duplicate');
  });

  it('that are refused for good are not sent again', async () => {
    const relay = await startRelay({ rejectWith: 'blocked: no zaps here' });
    const [receipt] = await plant(1, [relay.url]);
    const { courier, looks } = await post();
    courier.start();
    await untilCounts(relay.url, { refused: 1 });
    expect(await lastWord(relay.url, receipt?.id)).toBe('blocked: no zaps here');
    relay.switches.rejectWith = null;
    clock.advance(GIVE_UP_AFTER_MS / 2);
    await looks([relay.url]);
    expect(relay.timesSent.get(receipt?.id ?? '')).toBe(1);
  });

  it('that are turned away for now are sent again in time, with the same text', async () => {
    const relay = await startRelay({ rejectWith: 'error: the disk is full' });
    const [receipt] = await plant(1, [relay.url]);
    const id = receipt?.id ?? '';
    const { courier, looks } = await post();
    courier.start();
    await eventually(async () => expect(await lastWord(relay.url, id)).toContain('disk'));
    clock.advance(9 * SECOND_MS);
    await looks([relay.url]);
    expect(relay.timesSent.get(id)).toBe(1);
    clock.advance(1 * SECOND_MS);
    courier.notice([relay.url]);
    await eventually(async () => expect(await triesOf(relay.url, id)).toBe(2));
    relay.switches.rejectWith = null;
    clock.advance(30 * SECOND_MS);
    courier.notice([relay.url]);
    await relay.waitFor(1);
    expect(JSON.stringify(relay.events.get(id))).toBe(receipt?.text);
    await untilCounts(relay.url, { accepted: 1 });
  });

  it('wait where a relay limits how many it takes, and all of them get there', async () => {
    const relay = await startRelay({ eventsPerMinute: 25, now: clock.now });
    await plant(80, [relay.url]);
    const { courier } = await post();
    courier.start();
    const arrived: number[] = [];
    while (relay.events.size < 80 && arrived.length < 10) {
      await nextRest(relay.url);
      arrived.push(relay.events.size);
      // So long that each has its turn again, however often it was turned away.
      clock.advance(10 * MINUTE_MS);
      courier.notice([relay.url]);
      await relay.waitFor(() => relay.events.size > (arrived.at(-1) ?? 0));
    }
    await untilCounts(relay.url, { accepted: 80 });
    expect(arrived).toEqual([25, 50, 75]);
  });

  it('reach a relay that hangs up at one of them, all but that one', async () => {
    const receipts = await plant(40, ['wss://planted.example']);
    const relay = await startPickyRelay(receipts[0]?.id ?? '');
    await database.db.updateTable('zap_receipt_deliveries').set({ relay: relay.url }).execute();
    const { courier } = await post();
    courier.start();
    for (let rests = 0; rests < 4 && relay.taken.size < 39; rests += 1) {
      await nextRest(relay.url);
      clock.advance(5 * MINUTE_MS);
      courier.notice([relay.url]);
      await eventually(async () =>
        expect((await relayRow(database, relay.url))?.last_try_at).toEqual(new Date(clock.nowMs)),
      );
    }
    await untilCounts(relay.url, { accepted: 39, open: 1 });
    expect(await triesOf(relay.url, receipts[0]?.id)).toBeGreaterThan(1);
  });

  it('reach a relay that wants to know who is there', async () => {
    const relay = await startRelay({ auth: 'at_first_message', allowedKeys: [signer.pubkey] });
    await plant(5, [relay.url]);
    const { courier } = await post();
    courier.start();
    await untilCounts(relay.url, { accepted: 5 });
  });

  it('stay due where AUTH is wanted and there is no key any more', async () => {
    const relay = await startRelay({ auth: 'at_first_message' });
    await plant(1, [relay.url]);
    const { courier } = await post({ signer: null });
    courier.start();
    await eventually(async () =>
      expect([...(await standingAt(database, relay.url)).values()]).toMatchObject([
        { state: 'open', tries: 1, last_word: expect.stringContaining('auth-required') },
      ]),
    );
  });

  it('are given up after two days, also where nobody answered', async () => {
    clock.nowMs -= 2 * GIVE_UP_AFTER_MS;
    const dead = await refusingPort();
    await plant(3, [dead]);
    clock.advance(GIVE_UP_AFTER_MS);
    const { courier } = await post();
    courier.start();
    await untilCounts(dead, { given_up: 3 });
  });

  it('go out where zaps were planned by a clock that was ahead', async () => {
    const relay = await startRelay();
    clock.advance(10 * 24 * 60 * MINUTE_MS);
    const { courier } = await post();
    courier.start();
    await plant(1, [relay.url]);
    courier.notice([relay.url]);
    await relay.waitFor(1);
    await untilCounts(relay.url, { accepted: 1 });
    relay.switches.rejectWith = 'error: not now';
    const [receipt] = await plant(1, [relay.url]);
    courier.notice([relay.url]);
    await eventually(async () => expect(await triesOf(relay.url, receipt?.id)).toBe(1));
    relay.switches.rejectWith = null;
    clock.advance(-10 * 24 * 60 * MINUTE_MS);
    courier.notice([relay.url]);
    await relay.waitFor(2);
  });
});

describe('a relay that is dead', () => {
  it.each([
    ['refuses connections', () => refusingPort()],
    ['never answers the handshake', async () => (await startRelay({ handshake: 'silent' })).url],
    ['is no relay', async () => (await startRelay({ handshake: 404 })).url],
    ['takes events and never answers', async () => (await startRelay({ eventFate: 'ignore' })).url],
    ['hangs up at each event', async () => (await startRelay({ eventFate: 'hang_up' })).url],
  ])('as it %s rests, and delays no other', async (_how, startDead) => {
    const dead = await startDead();
    const relay = await startRelay();
    await plant(100, [dead, relay.url]);
    const { courier } = await post();
    courier.start();
    await untilCounts(relay.url, { accepted: 100 });
    await eventually(async () =>
      expect(await relayRow(database, dead)).toMatchObject({
        owner: null,
        failures: 1,
        rest_until: new Date(clock.nowMs + 45 * SECOND_MS),
        last_word: expect.stringMatching(/./),
      }),
    );
    expect(await countsAt(database, dead)).toEqual({ open: 100 });
  });

  it('keeps no place from those that work, however many of its kind there are', async () => {
    const tarpits = await Promise.all(
      Array.from({ length: 40 }, async () => (await startRelay({ handshake: 'silent' })).url),
    );
    const known = await startRelay();
    await plant(1, [known.url]);
    const { courier } = await post({ handshakeTimeoutMs: 60_000 });
    courier.start();
    await untilCounts(known.url, { accepted: 1 });
    await plant(1, tarpits);
    courier.notice(tarpits);
    await eventually(async () => expect(await ownedCount()).toBe(33));
    await plant(50, [known.url]);
    courier.notice([known.url]);
    await known.waitFor(51);
    expect(await ownedCount()).toBe(33);
  });

  it('and served once does not wait, as it is back, behind hosts that strangers name', async () => {
    const tarpits = await Promise.all(
      Array.from({ length: 40 }, async () => (await startRelay({ handshake: 'silent' })).url),
    );
    const relay = await startRelay();
    await plant(1, [relay.url]);
    const { courier } = await post({ handshakeTimeoutMs: 60_000 });
    courier.start();
    await untilCounts(relay.url, { accepted: 1 });
    await relay.stop();
    await plant(1, [relay.url]);
    courier.notice([relay.url]);
    await nextRest(relay.url);
    await plant(1, tarpits);
    courier.notice(tarpits);
    await eventually(async () => expect(await ownedCount()).toBe(32));
    await relay.restart();
    clock.advance(5 * SECOND_MS);
    await plant(1, [relay.url]);
    courier.notice([relay.url]);
    await whileTimePasses(() => relay.waitFor(3));
  });

  it('is sent to again as its rest is over, though nothing new is made for it', async () => {
    const relay = await startRelay();
    await relay.stop();
    await plant(1, [relay.url]);
    const { courier, looks } = await post({ ownRelays: [relay.url] });
    courier.start();
    await nextRest(relay.url);
    // What the end of its turn made the courier look at is behind it.
    await looks();
    await relay.restart();
    expect(await relayRow(database, relay.url)).toMatchObject({
      rest_until: new Date(clock.nowMs + 5 * SECOND_MS),
    });
    clock.advance(5 * SECOND_MS);
    await relay.waitFor(1);
    await untilCounts(relay.url, { accepted: 1 });
  });

  it('and the operator’s own is told of, though it never worked', async () => {
    const [own, strangers] = [await refusingPort(), await refusingPort()];
    const lines = new LogCapture('info');
    await plant(1, [own, strangers]);
    const { courier } = await post({ log: lines.log, ownRelays: [own] });
    courier.start();
    await nextRest(own);
    await nextRest(strangers);
    await lines.until('takes no zap receipts');
    expect(lines.lines.filter((line) => line.includes('takes no'))).toEqual([
      expect.stringContaining(own),
    ]);
  });

  it('that takes events and says nothing is sent a few, not all one after another', async () => {
    const relay = await startRelay({ eventFate: 'ignore' });
    await plant(500, [relay.url]);
    const { courier } = await post();
    courier.start();
    await eventually(async () =>
      expect(await relayRow(database, relay.url)).toMatchObject({ failures: 1 }),
    );
    expect(relay.timesSent.size).toBeLessThanOrEqual(32);
    const tried = [...(await standingAt(database, relay.url)).values()].filter(
      ({ tries }) => tries > 0,
    );
    expect(tried).toHaveLength(relay.timesSent.size);
  });

  it('gets all that waits as it is back, and one line tells of each', async () => {
    const relay = await startRelay();
    const lines = new LogCapture('info');
    await plant(1, [relay.url]);
    const { courier, looks } = await post({ log: lines.log });
    courier.start();
    await untilCounts(relay.url, { accepted: 1 });
    await relay.stop();
    await plant(300, [relay.url]);
    for (let failures = 1; failures <= 3; failures += 1) {
      courier.notice([relay.url]);
      await eventually(async () =>
        expect(await relayRow(database, relay.url)).toMatchObject({ failures }),
      );
      clock.advance(2 * MINUTE_MS);
    }
    await relay.restart();
    courier.notice([relay.url]);
    await relay.waitFor(301);
    await untilCounts(relay.url, { accepted: 301 });
    await eventually(async () =>
      expect(await relayRow(database, relay.url)).toMatchObject({
        failures: 0,
        rest_until: null,
        last_word: null,
      }),
    );
    await looks([relay.url]);
    const told = withoutMilestones(lines).filter((line) => line.includes(relay.url));
    expect(told).toEqual([
      expect.stringContaining('takes no zap receipts'),
      expect.stringContaining('takes zap receipts again'),
    ]);
  });

  it('in the middle of a lot costs nothing that was answered, and nothing that was not', async () => {
    const relay = await startRelay();
    await plant(400, [relay.url]);
    const { courier } = await post();
    courier.start();
    await relay.waitFor(100);
    relay.hangUp();
    await nextRest(relay.url);
    clock.advance(MINUTE_MS);
    courier.notice([relay.url]);
    await whileTimePasses(() => untilCounts(relay.url, { accepted: 400 }));
  });
});

describe('the courier', () => {
  it('opens few connections to a host that strangers name by many urls', async () => {
    const relay = await startRelay();
    const urls = Array.from({ length: 60 }, (_, index) => `${relay.url}/?${index}`);
    const { courier, store } = await post();
    await store.deliveries.claim('me', urls, clock.nowMs);
    const well = { failures: 0, restUntilMs: null, word: null, wentWell: true };
    for (const url of urls) {
      await store.deliveries.endTurn('me', url, well, clock.nowMs);
    }
    await plant(1, urls);
    courier.start();
    await eventually(async () => expect(await openCount()).toBe(0));
    // Four that are sent to, four idle ones, and some that say goodbye.
    expect(relay.connections.mostOpen).toBeLessThan(20);
  });

  it('looks at once at the relays that it is told of, and need not come to them first', async () => {
    const relay = await startRelay();
    const { courier, switches } = await post();
    switches.isFarFromAll = true;
    courier.start();
    await plant(1, [relay.url]);
    courier.notice([relay.url]);
    await untilCounts(relay.url, { accepted: 1 });
  });

  it('remembers which relays it was told of while the database is away', async () => {
    const relay = await startRelay();
    const lines = new LogCapture('info');
    const { courier, looks, switches } = await post({ log: lines.log });
    switches.isFarFromAll = true;
    courier.start();
    await looks();
    await plant(1, [relay.url]);
    switches.isDatabaseAway = true;
    courier.notice([relay.url]);
    await lines.until('the database cannot be read');
    switches.isDatabaseAway = false;
    await untilCounts(relay.url, { accepted: 1 });
  });

  it('leaves everything else its turn while it gives up many receipts', async () => {
    const lots = 4;
    const relays = Array.from({ length: 20 }, (_, index) => `wss://${index}.relay.example`);
    const atMs = clock.nowMs - 2 * GIVE_UP_AFTER_MS;
    await plantReceipts(database, { texts: lots * 25, relays, atMs });
    const { deliver } = await post();
    let ticks = 0;
    const ticking = setInterval(() => {
      ticks += 1;
    }, 1);
    onTestFinished(() => clearInterval(ticking));
    await deliver.giveUpOverdue(new AbortController().signal);
    expect(ticks).toBeGreaterThanOrEqual(lots);
    expect(await openCount()).toBe(0);
  });

  it('hears soon what other processes made for a relay that it has', async () => {
    const relay = await startRelay();
    const { courier, switches } = await post();
    courier.start();
    await plant(1, [relay.url]);
    courier.notice([relay.url]);
    await untilCounts(relay.url, { accepted: 1 });
    switches.isFarFromAll = true;
    await plant(1, [relay.url]);
    await untilCounts(relay.url, { accepted: 2 });
  });

  it('stops at once beside relays that answer nothing, and leaves them to others', async () => {
    const silent = await startRelay({ handshake: 'silent' });
    const mute = await startRelay({ eventFate: 'ignore' });
    const relay = await startRelay();
    const urls = [silent.url, mute.url, relay.url];
    await plant(50, urls);
    const { courier } = await post({ answerTimeoutMs: 60_000, handshakeTimeoutMs: 60_000 });
    courier.start();
    await untilCounts(relay.url, { accepted: 50 });
    await mute.waitFor(() => mute.timesSent.size > 0);
    const beganAt = performance.now();
    await courier.stop();
    expect(performance.now() - beganAt).toBeLessThan(1_500);
    expect(await ownedCount()).toBe(0);
    expect(await countsAt(database, mute.url)).toEqual({ open: 50 });
    const { courier: next } = await post();
    mute.switches.eventFate = 'answer';
    next.start();
    await untilCounts(mute.url, { accepted: 50 });
  });

  it('writes what is answered as it stops', async () => {
    const relay = await startRelay();
    const release = relay.hold();
    await plant(5, [relay.url]);
    const { courier } = await post();
    courier.start();
    await relay.waitFor(5);
    const stopped = courier.stop();
    release();
    await stopped;
    expect(await countsAt(database, relay.url)).toEqual({ accepted: 5 });
  });

  it('shares the relays with another process: each has one connection', async () => {
    const relays = await Promise.all(Array.from({ length: 4 }, () => startRelay()));
    const urls = relays.map(({ url }) => url);
    const [one, two] = [await post({ processId: 'one' }), await post({ processId: 'two' })];
    one.courier.start();
    two.courier.start();
    for (let round = 1; round <= 5; round += 1) {
      await plant(20, urls);
      one.courier.notice(urls);
      two.courier.notice(urls);
      for (const relay of relays) {
        await relay.waitFor(20 * round);
      }
    }
    for (const relay of relays) {
      await untilCounts(relay.url, { accepted: 100 });
      expect(relay.connections.opened).toBe(1);
      expect([...relay.timesSent.values()].every((times) => times === 1)).toBe(true);
    }
  });

  it.each([
    ['stops', (process: Post) => process.courier.stop()],
    ['is taken for dead', (process: Post) => process.store.leases.leave('one')],
  ])('takes over a relay as the process that had it %s', async (_how, end) => {
    const relay = await startRelay();
    const one = await post({ processId: 'one' });
    const two = await post({ processId: 'two' });
    await plant(1, [relay.url]);
    one.courier.start();
    await untilCounts(relay.url, { accepted: 1 });
    two.courier.start();
    await two.looks([relay.url]);
    expect(await relayRow(database, relay.url)).toMatchObject({ owner: 'one' });
    await end(one);
    await plant(1, [relay.url]);
    two.courier.notice([relay.url]);
    await untilCounts(relay.url, { accepted: 2 });
    expect(await relayRow(database, relay.url)).toMatchObject({ owner: 'two' });
  });

  it('leaves a relay to others once nothing was due there for a while', async () => {
    const relay = await startRelay();
    let monotonicMs = 0;
    await plant(1, [relay.url]);
    const { courier, looks } = await post({ monotonicMs: () => monotonicMs });
    courier.start();
    await untilCounts(relay.url, { accepted: 1 });
    monotonicMs += 30 * SECOND_MS;
    await looks();
    expect(await relayRow(database, relay.url)).toMatchObject({ owner: 'me' });
    // The turn may have ended a moment ago, when what came of it had long been written down.
    monotonicMs += 2 * MINUTE_MS;
    await eventually(async () => {
      await looks();
      expect(await relayRow(database, relay.url)).toMatchObject({ owner: null, failures: 0 });
    });
  });

  it('loses nothing while the database is away, and tells of it once', async () => {
    const relay = await startRelay();
    const lines = new LogCapture('info');
    const { courier, looks, switches } = await post({ log: lines.log });
    courier.start();
    await looks();
    const receipts = await plant(40, [relay.url]);
    const release = relay.hold();
    courier.notice([relay.url]);
    await relay.waitFor(32);
    switches.isDatabaseAway = true;
    release();
    await lines.until('broke off');
    courier.notice([relay.url]);
    await lines.until('the database cannot be read');
    courier.notice([relay.url]);
    switches.isDatabaseAway = false;
    courier.notice([relay.url]);
    await untilCounts(relay.url, { accepted: 40 });
    expect(relay.events.size).toBe(receipts.length);
    const levels = lines.lines.map((line) => JSON.parse(line).level);
    expect(levels.filter((level) => level >= 50)).toHaveLength(2);
    expect(withoutMilestones(lines).at(-1)).toContain('read again');
  });
});

/** What the log tells of relays and of the database, and not of one receipt. */
function withoutMilestones({ lines }: LogCapture): string[] {
  return lines.filter((line) => !('milestone' in JSON.parse(line)));
}

describe('a turn', () => {
  const relay = { url: 'wss://relay.example', failures: 0, hasServed: true, isOwn: false };

  it('has so many receipts under way, and passes on after its time', async () => {
    await plant(300, [relay.url]);
    let monotonicMs = 0;
    let underWay = 0;
    let most = 0;
    let sent = 0;
    const { deliver, store } = await post({
      monotonicMs: () => monotonicMs,
      publish: async () => {
        underWay += 1;
        most = Math.max(most, underWay);
        await Promise.resolve();
        underWay -= 1;
        sent += 1;
        monotonicMs += 100;
        return { outcome: 'accepted', word: '' };
      },
    });
    await store.deliveries.claim('me', [relay.url], clock.nowMs);
    expect(await deliver.turn(relay, new AbortController().signal)).toBe('interrupted');
    expect(most).toBe(32);
    // Two hundred in 20 s, and what was under way then.
    expect(sent).toBeGreaterThanOrEqual(200);
    expect(sent).toBeLessThan(200 + 32);
    expect((await countsAt(database, relay.url))['accepted']).toBe(sent);
    expect(await relayRow(database, relay.url)).toMatchObject({ failures: 0, rest_until: null });
  });

  it('goes on after a receipt that the relay has no word for, while it answers others', async () => {
    await plant(300, [relay.url]);
    let ignored: string | undefined;
    const laterAnswers = Promise.withResolvers<void>();
    let answers = 0;
    const { deliver, store } = await post({
      publish: async (_url, { id }) => {
        ignored ??= id;
        if (id === ignored) {
          await laterAnswers.promise;
          return { outcome: 'unanswered' };
        }
        answers += 1;
        if (answers === 100) {
          laterAnswers.resolve();
        }
        return { outcome: 'accepted', word: '' };
      },
    });
    await store.deliveries.claim('me', [relay.url], clock.nowMs);
    expect(await deliver.turn(relay, new AbortController().signal)).toBe('drained');
    expect(await countsAt(database, relay.url)).toEqual({ accepted: 299, open: 1 });
    expect(await lastWord(relay.url, ignored)).toBe('no answer');
  });

  it('proves nothing where each answer takes long, and the relay rests', async () => {
    await plant(3, [relay.url]);
    const { deliver, store } = await post({ publish: acceptLate });
    await store.deliveries.claim('me', [relay.url], clock.nowMs);
    fakeTimers('setTimeout', 'clearTimeout', 'setImmediate');
    expect(await deliver.turn(relay, new AbortController().signal)).toBe('resting');
    expect(await countsAt(database, relay.url)).toEqual({ accepted: 3 });
    expect(await relayRow(database, relay.url)).toMatchObject({ failures: 1, accepted_at: null });
  });

  it('calls no relay slow whose answer was there as this process had been busy', async () => {
    await plant(3, [relay.url]);
    let monotonicMs = 0;
    const { deliver, store } = await post({
      monotonicMs: () => monotonicMs,
      publish: async () => {
        // All timers are late, and the answer is read right after them.
        monotonicMs += 6 * SECOND_MS;
        vi.advanceTimersByTime(6 * SECOND_MS);
        return { outcome: 'accepted', word: '' };
      },
    });
    await store.deliveries.claim('me', [relay.url], clock.nowMs);
    fakeTimers('setTimeout', 'clearTimeout');
    expect(await deliver.turn(relay, new AbortController().signal)).toBe('drained');
    expect(await relayRow(database, relay.url)).toMatchObject({
      failures: 0,
      accepted_at: expect.any(Date),
    });
  });

  it.each([
    ['ends with the first late answer of a stranger’s relay that never served', {}, 32],
    ['goes on at a relay that served, though it answers late', { hasServed: true }, 100],
    ['goes on at the operator’s own relay, though it answers late', { isOwn: true }, 100],
  ])('%s', async (_what, standing, sent) => {
    await plant(100, [relay.url]);
    const { deliver, store } = await post({ publish: acceptLate });
    await store.deliveries.claim('me', [relay.url], clock.nowMs);
    fakeTimers('setTimeout', 'clearTimeout', 'setImmediate');
    const claimed = { ...relay, hasServed: false, ...standing };
    expect(await deliver.turn(claimed, new AbortController().signal)).toBe('resting');
    expect((await countsAt(database, relay.url))['accepted']).toBe(sent);
  });

  it('does nothing at a relay that another process has', async () => {
    await plant(1, [relay.url]);
    const publish = vi.fn<RelayPool['publish']>();
    const { deliver } = await post({ publish });
    expect(await deliver.turn(relay, new AbortController().signal)).toBe('idle');
    expect(publish).not.toHaveBeenCalled();
  });
});

/** Until the test is over. */
function fakeTimers(...toFake: ('setTimeout' | 'clearTimeout' | 'setImmediate')[]): void {
  vi.useFakeTimers({ toFake });
  onTestFinished(() => {
    vi.useRealTimers();
  });
}

/** Takes every receipt, and longer for it than relays do; timers are fake. */
async function acceptLate(): Promise<PublishAnswer> {
  await vi.advanceTimersByTimeAsync(9 * SECOND_MS);
  return { outcome: 'accepted', word: '' };
}

type Post = Awaited<ReturnType<typeof post>>;

/** One process with its courier. */
async function post(
  options: {
    processId?: string;
    signer?: EventSigner | null;
    answerTimeoutMs?: number;
    handshakeTimeoutMs?: number;
    monotonicMs?: () => number;
    publish?: (url: string, event: { id: string; text: string }) => Promise<PublishAnswer>;
    ownRelays?: readonly string[];
    log?: Log;
  } = {},
) {
  const store = new Store(database.db);
  const { processId = 'me', monotonicMs = () => performance.now() } = options;
  const log = options.log ?? openLog('silent');
  const usedSigner = options.signer === undefined ? signer : options.signer;
  await store.leases.keepAlive(processId);
  const pool = new RelayPool({
    connect: guardedSocketConnector({
      allowPrivateNetworks: true,
      handshakeTimeoutMs: options.handshakeTimeoutMs ?? ANSWER_TIMEOUT_MS,
    }),
    signer: usedSigner,
    verifyEvent: await loadEventVerifier(),
    clock: clock.now,
    log,
    timing: { answerTimeoutMs: options.answerTimeoutMs ?? ANSWER_TIMEOUT_MS },
  });
  const switches = {
    isDatabaseAway: false,
    /** As if there were so many relays that it will be long until it has looked at them in turn. */
    isFarFromAll: false,
  };
  let looks = 0;
  const deliveries = new Proxy(store.deliveries, {
    get:
      (target, name: keyof Store['deliveries']) =>
      (...args: unknown[]) => {
        if (switches.isDatabaseAway) {
          return Promise.reject(new Error('the database is away'));
        }
        if (switches.isFarFromAll && name === 'dueRelays') {
          return Promise.resolve({ relays: [], next: null });
        }
        const result = (target[name] as (...given: unknown[]) => Promise<unknown>)(...args);
        return result.finally(() => {
          looks += name === 'release' ? 1 : 0;
        });
      },
  });
  const parts = { deliveries, processId, clock: clock.now, monotonicMs, log };
  const deliver = new DeliverZapReceipts({
    ...parts,
    relays: options.publish === undefined ? pool : { publish: options.publish },
    canAuthenticate: usedSigner !== null,
  });
  const courier = new ReceiptCourier({
    ...parts,
    deliver,
    ownRelays: options.ownRelays ?? [],
    allowPrivateNetworks: true,
  });
  onTestFinished(async () => {
    await courier.stop();
    await pool.close();
  });
  return {
    store,
    deliver,
    courier,
    switches,
    /** Resolves when it has looked once more at what is due at these relays, from the beginning. */
    looks: async (urls: readonly string[] = []) => {
      const target = looks + 2;
      await eventually(() => {
        courier.notice(urls);
        expect(looks).toBeGreaterThanOrEqual(target);
      });
    },
  };
}

/** Where this machine stands still for seconds, a relay counts as slow, and rests for as long. */
async function whileTimePasses<T>(work: () => Promise<T>): Promise<T> {
  const passing = setInterval(() => clock.advance(SECOND_MS), 50);
  try {
    return await work();
  } finally {
    clearInterval(passing);
  }
}

/** A relay that hangs up at one event, and takes all others. */
async function startPickyRelay(poison: string) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  const taken = new Set<string>();
  server.on('connection', (socket) => {
    socket.on('message', (data) => {
      const [, { id }] = JSON.parse(String(data));
      if (id === poison) {
        socket.terminate();
      } else if (socket.readyState === socket.OPEN) {
        taken.add(id);
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
  return { url: `ws://127.0.0.1:${port}`, taken };
}

let serial = 0;

/** Receipts as relays take them, due now. */
function plant(count: number, relays: readonly string[]) {
  const texts = Array.from({ length: count }, () => {
    serial += 1;
    const tags = [['description', `zap ${serial}`]];
    return JSON.stringify(
      signer.sign({ kind: 9735, content: '', created_at: 1_750_000_000, tags }),
    );
  });
  return plantReceipts(database, { texts, relays, atMs: clock.nowMs });
}

/** How many deliveries are open, at whatever relay. */
async function openCount(): Promise<number> {
  const rows = await database.db
    .selectFrom('zap_receipt_deliveries')
    .select('receipt')
    .where('state', '=', 'open')
    .execute();
  return rows.length;
}

async function untilCounts(relay: string, counts: Record<string, number>): Promise<void> {
  await eventually(async () => expect(await countsAt(database, relay)).toEqual(counts));
}

async function nextRest(relay: string): Promise<void> {
  await eventually(async () =>
    expect((await relayRow(database, relay))?.rest_until?.getTime()).toBeGreaterThan(clock.nowMs),
  );
}

async function lastWord(relay: string, id: string | undefined): Promise<string | null | undefined> {
  return (await standingAt(database, relay)).get(id ?? '')?.last_word;
}

async function triesOf(relay: string, id: string | undefined): Promise<number | undefined> {
  return (await standingAt(database, relay)).get(id ?? '')?.tries;
}

/** How many relays some process has. */
async function ownedCount(): Promise<number> {
  const rows = await database.db
    .selectFrom('relays')
    .select('url')
    .where('owner', 'is not', null)
    .execute();
  return rows.length;
}
