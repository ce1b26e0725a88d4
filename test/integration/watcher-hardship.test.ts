import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { TestMint } from '../../src/demo/test-mint.ts';
import { CHECK_CLASS } from '../../src/domain/poll-schedule.ts';
import { Store } from '../../src/store/store.ts';
import { eventually } from '../helpers/eventually.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { dueAt, unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** The watcher where much is wrong at once. */

const HOUR_MS = 3_600_000;

/** Looks come as fast as they can, so that moving the clock is all it takes. */
const FAST = { scanIntervalMs: 5, pollGapMs: 0 };

describe('many mints that do not answer', () => {
  const SILENT_MINTS = 60;

  it('are asked some at a time, and another’s payment is seen as ever', async () => {
    const world = await open({ fetchLimits: { headersTimeoutMs: 900, totalTimeoutMs: 1_000 } });
    const silence = await openSilence(SILENT_MINTS);
    const store = new Store(world.database.db);
    for (const mintUrl of silence.urls) {
      await store.quotes.insert(unpaidQuote(randomPubkey(), { mintUrl, nextCheck: dueAt(0) }));
    }
    const wallet = world.newWallet();
    const updates = await wallet.openSocket();
    // Each is asked once before it is known to be silent.
    await eventually(() => expect(silence.asked.size).toBe(SILENT_MINTS));
    silence.mostAtOnce = 0;
    for (let round = 0; round < 3; round += 1) {
      const { pr } = await world.askInvoice(wallet, 21);
      world.clock.advance(4_000);
      world.mint.pay(pr);
      world.clock.advance(60_000);
      expect((await updates.next()).type).toBe('update');
    }
    await whileTimePasses(world.clock, () => {
      expect(silence.requests).toBeGreaterThanOrEqual(3 * SILENT_MINTS);
    });
    expect(silence.mostAtOnce).toBeGreaterThan(1);
    expect(silence.mostAtOnce).toBeLessThanOrEqual(32);
    await updates.close();
  });
});

describe('a clock', () => {
  it('that is set back by hours holds up no payment', async () => {
    const world = await open({});
    world.mint.switches.socket = false;
    const wallet = world.newWallet();
    const updates = await wallet.openSocket();
    world.clock.advance(5 * HOUR_MS);
    const { pr } = await world.askInvoice(wallet, 21);
    world.clock.advance(4_000);
    await looked(world, 1);
    world.mint.pay(pr);
    world.clock.advance(-5 * HOUR_MS);
    expect((await updates.next()).type).toBe('update');
    await updates.close();
  });

  it('that jumps ahead by a year gives up no quote, and is believed again when it is right', async () => {
    const world = await open({});
    world.mint.switches.socket = false;
    const wallet = world.newWallet();
    const { pr } = await world.askInvoice(wallet, 21);
    world.clock.advance(365 * 24 * HOUR_MS);
    await looked(world, 1);
    world.clock.advance(-365 * 24 * HOUR_MS);
    world.mint.pay(pr);
    world.clock.advance(4_000);
    await eventually(async () =>
      expect(await wallet.listQuotes()).toMatchObject([{ request: pr }]),
    );
  });
});

describe('a mint that was away for days', () => {
  it('is asked about everything when it is back, and nothing of it was given up meanwhile', async () => {
    const world = await open({ fetchLimits: { headersTimeoutMs: 150, totalTimeoutMs: 200 } });
    world.mint.switches.socket = false;
    const wallet = world.newWallet();
    const { pr } = await world.askInvoice(wallet, 21);
    world.mint.switches.dead = true;
    for (let day = 0; day < 5; day += 1) {
      world.clock.advance(24 * HOUR_MS);
      const before = pollsOf(world.mint);
      await whileTimePasses(world.clock, () => {
        expect(pollsOf(world.mint)).toBeGreaterThan(before);
      });
    }
    world.mint.switches.dead = false;
    world.mint.pay(pr);
    await whileTimePasses(world.clock, async () => {
      expect(await wallet.listQuotes()).toMatchObject([{ request: pr }]);
    });
  });
});

describe('a mint that bears one read at a time, with far more open quotes than it can be asked about', () => {
  const OLD = 150;

  it('tells of a young quote soon, and of the old ones too', async () => {
    const world = await open({});
    Object.assign(world.mint.switches, { socket: false, batch: false });
    const store = new Store(world.database.db);
    const wallet = world.newWallet();
    const createdAtMs = world.clock.nowMs - 5 * HOUR_MS;
    for (let index = 0; index < OLD; index += 1) {
      const nextCheck = dueAt(createdAtMs, CHECK_CLASS.rarely);
      const mintUrl = world.mint.url;
      await store.quotes.insert(unpaidQuote(randomPubkey(), { mintUrl, createdAtMs, nextCheck }));
    }
    const { pr } = await world.askInvoice(wallet, 21);
    world.clock.advance(4_000);
    world.mint.pay(pr);
    await whileTimePasses(world.clock, async () => {
      expect(await wallet.listQuotes()).toMatchObject([{ request: pr }]);
    });
    await whileTimePasses(world.clock, () => looked(world, OLD + 1));
  });
});

async function open(
  surroundings: NonNullable<Parameters<typeof openWorld>[0]>['surroundings'],
): Promise<World & { clock: TestClock }> {
  const clock = new TestClock();
  const world = await openWorld({
    mint: { now: clock.now },
    surroundings: { ...FAST, ...surroundings, clock: clock.now },
  });
  onTestFinished(() => world.close());
  return { ...world, clock };
}

/** Resolves when so many quotes were looked at, and that is written down. */
async function looked(world: World, quotes: number): Promise<void> {
  await eventually(async () => {
    const { checked } = await world.database.db
      .selectFrom('quotes')
      .select((select) => select.fn.count<number>('checked_at').as('checked'))
      .executeTakeFirstOrThrow();
    expect(Number(checked)).toBe(quotes);
  });
}

/** Lets the clock run, fast, until something holds. */
async function whileTimePasses(clock: TestClock, holds: () => void | Promise<void>): Promise<void> {
  await eventually(async () => {
    clock.advance(1_000);
    await holds();
  });
}

/** So many mints that take a request and never answer; counts how many they have at once. */
async function openSilence(mints: number) {
  const silence = { urls: [] as string[], asked: new Set<number>(), requests: 0, mostAtOnce: 0 };
  let atOnce = 0;
  for (let index = 0; index < mints; index += 1) {
    const server = createServer((request) => {
      if (request.method !== 'POST') {
        return;
      }
      silence.asked.add(index);
      silence.requests += 1;
      atOnce += 1;
      silence.mostAtOnce = Math.max(silence.mostAtOnce, atOnce);
      request.once('close', () => {
        atOnce -= 1;
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    silence.urls.push(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  }
  return silence;
}

function pollsOf({ requestCounts }: TestMint): number {
  return (
    requestCounts['POST /v1/mint/quote/bolt11/check'] +
    requestCounts['GET /v1/mint/quote/bolt11/:id']
  );
}

function randomPubkey(): string {
  return randomBytes(32).toString('hex');
}
