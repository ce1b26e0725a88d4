import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { TestMintSwitches } from '../../src/demo/test-mint/switches.ts';
import type { TestMint } from '../../src/demo/test-mint.ts';
import type { Surroundings } from '../../src/service.ts';
import { Store } from '../../src/store/store.ts';
import { eventually } from '../helpers/eventually.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { unpaidQuote } from '../helpers/unpaid-quotes.ts';
import type { TestWallet } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';

/** The watcher with bad mints and bad clocks: every payment is still seen. */

const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;

const BATCH = 'POST /v1/mint/quote/bolt11/check';
const READ = 'GET /v1/mint/quote/bolt11/:id';

/** Polls follow each other without pauses, so that a test only moves the clock. */
const FAST = { scanIntervalMs: 5, pollGapMs: 0 };

describe('a mint', () => {
  const PAYMENTS = 12;

  it.each<[string, Partial<TestMintSwitches>]>([
    ['cuts and garbles every third answer', onPolls({ garbage: 0.2, cutAfter: 0.2 })],
    ['limits every third request for a moment', onPolls({ rateLimit: 0.2, bareRateLimit: 0.2 })],
    ['answers every batch with an error', onBatches({ error: 1 })],
    ['answers batches in another order, and twice', onBatches({ shuffledBatch: 1 })],
    ['no longer has its batch route', { batch: 'absent' }],
    ['accepts smaller batches than it advertised', { maxBatchSize: 3 }],
    ['is silent on its socket', { socketSilent: true }],
    [
      'loses every other message of its socket and sends stale states',
      { chaos: { rates: { lostMessage: 0.5, staleFirstState: 1 } } },
    ],
  ])('that %s loses no payment', async (_how, switches) => {
    const { world, clock, wallet } = await open();
    const invoices = await askInvoices(world, wallet, PAYMENTS);
    Object.assign(world.mint.switches, switches);
    for (const { pr } of invoices) {
      world.mint.pay(pr);
    }
    await whileTimePasses(clock, async () => {
      expect(await wallet.listQuotes()).toHaveLength(PAYMENTS);
    });
  });

  it.each(['nutshell', 'cdk'] as const)(
    'like %s, which rejects a batch for one unknown id, loses no payment',
    async (style) => {
      const { world, clock, wallet } = await open();
      Object.assign(world.mint.switches, { socket: false, style });
      const invoices: { pr: string }[] = [];
      for (let index = 0; index < PAYMENTS; index += 1) {
        if (index % 5 === 0) {
          await insertUnknownQuote(world, { createdAtMs: clock.nowMs });
        }
        invoices.push(...(await askInvoices(world, wallet, 1)));
      }
      for (const { pr } of invoices) {
        world.mint.pay(pr);
      }
      await whileTimePasses(clock, async () => {
        expect(await wallet.listQuotes()).toHaveLength(PAYMENTS);
      });
    },
  );

  it('that bears single reads only has its young quotes read soon, and the old ones too', async () => {
    const OLD = 150;
    const { world, clock, wallet } = await open();
    Object.assign(world.mint.switches, { socket: false, batch: 'absent' });
    for (let index = 0; index < OLD; index += 1) {
      await insertUnknownQuote(world, { createdAtMs: clock.nowMs - 5 * HOUR_MS });
    }
    const [invoice] = await askInvoices(world, wallet, 1);
    world.mint.pay(invoice?.pr ?? '');
    await whileTimePasses(clock, async () => {
      expect(await wallet.listQuotes()).toHaveLength(1);
    });
    await whileTimePasses(clock, () => {
      expect(world.mint.requestCounts[READ]).toBeGreaterThan(OLD);
    });
  });

  it('that was away for days is asked about everything when it is back', async () => {
    const { world, clock, wallet } = await open({
      fetchLimits: { headersTimeoutMs: 150, totalTimeoutMs: 200 },
    });
    world.mint.switches.socket = false;
    const [invoice] = await askInvoices(world, wallet, 1);
    world.mint.switches.dead = true;
    for (let day = 0; day < 5; day += 1) {
      clock.advance(24 * HOUR_MS);
      const before = pollsOf(world.mint);
      await whileTimePasses(clock, () => expect(pollsOf(world.mint)).toBeGreaterThan(before));
    }
    world.mint.switches.dead = false;
    world.mint.pay(invoice?.pr ?? '');
    await whileTimePasses(clock, async () => {
      expect(await wallet.listQuotes()).toHaveLength(1);
    });
  });
});

describe('many mints that do not answer', () => {
  const SILENT_MINTS = 60;

  it('are polled some at a time, and do not delay the payments of another', async () => {
    const { world, clock, wallet } = await open({
      fetchLimits: { headersTimeoutMs: 900, totalTimeoutMs: 1_000 },
    });
    const silence = await openSilence(SILENT_MINTS);
    const store = new Store(world.database.db);
    for (const mintUrl of silence.urls) {
      const createdAtMs = clock.nowMs;
      await store.quotes.insert(unpaidQuote(randomPubkey(), { mintUrl, createdAtMs }));
    }
    const updates = await wallet.openSocket();
    // Each is polled once before it is known to be silent.
    await eventually(() => expect(silence.asked.size).toBe(SILENT_MINTS));
    silence.mostAtOnce = 0;
    for (let round = 0; round < 3; round += 1) {
      const [invoice] = await askInvoices(world, wallet, 1);
      clock.advance(4 * SECOND_MS);
      world.mint.pay(invoice?.pr ?? '');
      clock.advance(60 * SECOND_MS);
      expect((await updates.next()).type).toBe('update');
    }
    await whileTimePasses(clock, () => {
      expect(silence.requests).toBeGreaterThanOrEqual(3 * SILENT_MINTS);
    });
    expect(silence.mostAtOnce).toBeGreaterThan(1);
    expect(silence.mostAtOnce).toBeLessThanOrEqual(32);
    await updates.close();
  });
});

describe('a wall clock', () => {
  it('that is set back by hours delays no payment', async () => {
    const { world, clock, wall, wallet } = await openWithWallClock();
    wall.advance(5 * HOUR_MS);
    const [invoice] = await askInvoices(world, wallet, 1);
    wall.advance(-5 * HOUR_MS);
    world.mint.pay(invoice?.pr ?? '');
    await whileTimePasses(clock, async () => {
      expect(await wallet.listQuotes()).toHaveLength(1);
    });
  });

  it('that jumps ahead by a year and comes back ends no watch', async () => {
    const { world, clock, wall, wallet } = await openWithWallClock();
    const [invoice] = await askInvoices(world, wallet, 1);
    wall.advance(365 * 24 * HOUR_MS);
    clock.advance(2 * HOUR_MS);
    const before = pollsOf(world.mint);
    await whileTimePasses(clock, () => expect(pollsOf(world.mint)).toBeGreaterThan(before));
    wall.advance(-365 * 24 * HOUR_MS);
    world.mint.pay(invoice?.pr ?? '');
    await whileTimePasses(clock, async () => {
      expect(await wallet.listQuotes()).toHaveLength(1);
    });
  });

  /** A world with a wall clock of its own beside the monotonic one, and a mint without a socket. */
  async function openWithWallClock() {
    const wall = new TestClock();
    const opened = await open({ clock: wall.now });
    opened.world.mint.switches.socket = false;
    return { ...opened, wallet: opened.world.newWallet(), wall };
  }
});

/** A world whose clock is also the mint's. */
async function open(
  surroundings: Surroundings = {},
): Promise<{ world: World; clock: TestClock; wallet: TestWallet }> {
  const clock = new TestClock();
  const world = await openWorld({
    mint: { now: clock.now },
    surroundings: { ...FAST, clock: clock.now, monotonicMs: clock.now, ...surroundings },
  });
  onTestFinished(() => world.close());
  return { world, clock, wallet: world.newWallet() };
}

function onPolls(rates: object): Partial<TestMintSwitches> {
  return { socket: false, chaos: { rates: {}, ratesByRoute: { [BATCH]: rates, [READ]: rates } } };
}

function onBatches(rates: object): Partial<TestMintSwitches> {
  return { socket: false, chaos: { rates: {}, ratesByRoute: { [BATCH]: rates } } };
}

async function askInvoices(
  world: World,
  wallet: TestWallet,
  count: number,
): Promise<{ pr: string }[]> {
  const invoices: { pr: string }[] = [];
  for (let index = 0; index < count; index += 1) {
    invoices.push(await world.askInvoice(wallet, 21));
  }
  return invoices;
}

/** A quote that the mint does not know. */
async function insertUnknownQuote(world: World, given: { createdAtMs: number }): Promise<void> {
  const quote = unpaidQuote(randomPubkey(), { mintUrl: world.mint.url, ...given });
  await new Store(world.database.db).quotes.insert(quote);
}

/** Lets time pass, fast, until something holds. */
async function whileTimePasses(clock: TestClock, holds: () => void | Promise<void>): Promise<void> {
  await eventually(async () => {
    clock.advance(SECOND_MS);
    await holds();
  });
}

function pollsOf({ requestCounts }: TestMint): number {
  return requestCounts[BATCH] + requestCounts[READ];
}

function randomPubkey(): string {
  return randomBytes(32).toString('hex');
}

/** Starts mints that accept requests and never answer; counts the polls that they hold at once. */
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
