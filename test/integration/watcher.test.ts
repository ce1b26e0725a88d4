import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { Wallet } from '@cashu/cashu-ts';
import { sql } from 'kysely';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { TestMintSwitches } from '../../demo/test-mint/switches.ts';
import type { TestMint } from '../../demo/test-mint.ts';
import { Store } from '../../src/store.ts';
import { eventually } from '../helpers/eventually.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { listenOnLoopback } from '../helpers/loopback-server.ts';
import { buildUnpaidQuote, randomPubkey } from '../helpers/quotes.ts';
import { startMint } from '../helpers/start-test-mint.ts';
import { TestClock } from '../helpers/test-clock.ts';
import {
  createTestEnvironment,
  setLockQuotes,
  setMint,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/test-environment.ts';
import { requestJson, type TestQuoteSocket, type TestWallet } from '../helpers/test-wallet.ts';

/** The watcher in a running service records every payment, whatever mints and clocks do. */

const CREATE = 'POST /v1/mint/quote/bolt11';
const BATCH = 'POST /v1/mint/quote/bolt11/check';
const READ = 'GET /v1/mint/quote/bolt11/:id';

/** The command line kills a service that takes longer to stop. */
const STOP_DEADLINE_MS = 10_000;

/** The poll intervals of a quote: young and unpaid, subscribed, paid, or INFLIGHT. */
const FIRST_POLL_MS = 4_000;
const COVERED_POLL_MS = 20_000;
const PAID_POLL_MS = 20_000;
const INFLIGHT_POLL_MS = 3_000;

/** The interval of the rescan for quotes that were not announced. */
const RESCAN_MS = 15_000;
/** How long a mint keeps its watcher after its last quote. */
const LINGER_MS = 10 * 60_000;

const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** No pause between polls: a test only advances the clock. */
const FAST = { scanIntervalMs: 5, pollIntervalMs: 0 };

const clock = new TestClock();
const errors = new LogCapture('error');
const world = useTestEnvironment({ overrides: { ...FAST, clock: clock.now, log: errors.log } });
let store: Store;

beforeAll(() => {
  store = new Store(world.database.db);
});

describe('a payment', () => {
  it('is reported by the mint’s socket', async () => {
    const { mint, wallet, updates } = await receiveAt();
    const { pr } = await world.requestInvoice(wallet, 21);
    // A mint's first quote is also polled once.
    await polled(mint, 1);
    await subscribed(mint);
    mint.pay(pr);
    const quoteId = await nextUpdate(updates);
    expect(await wallet.listQuotes()).toMatchObject([
      { quoteId, amount: 21, state: 'PAID', mintUrl: mint.url },
    ]);
    expect(await sourceOf(quoteId)).toBe('socket');
  });

  it.each([
    ['in batches', 'advertised'],
    ['in batches that the mint does not advertise', 'unadvertised'],
    ['one by one, after one batch', 'absent'],
  ] as const)('is found by polling alone, %s', async (_how, batch) => {
    // Later answers of the mint contain neither the expiry nor the lock.
    const switches = { hasWebSocket: false, batch, omitsExpiryAndPubkeyAfterCreation: true };
    const { mint, wallet, updates } = await receiveAt(switches);
    await setLockQuotes(wallet, true);
    const { pr } = await world.requestInvoice(wallet, 21);
    await polled(mint, 1);
    mint.pay(pr);
    const quoteId = await nextUpdate(updates, { every: FIRST_POLL_MS });
    const [quote] = await wallet.listQuotes();
    expect(quote).toMatchObject({ quoteId, state: 'PAID', locked: true });
    expect(Number(quote?.['expiresAt']) - Number(quote?.['createdAt'])).toBe(3_600);
    expect(await sourceOf(quoteId)).toBe('poll');
    const { batches, reads } = pollsOf(mint);
    expect([batches > 1, reads > 0]).toEqual(batch === 'absent' ? [false, true] : [true, false]);
    expect(mint.requestCounts['GET /v1/ws']).toBe(0);
  });

  it('made while the service was down is found after its restart', async () => {
    const own = await createTestEnvironment({
      mint: { switches: { hasWebSocket: false }, now: clock.now },
      overrides: { ...FAST, clock: clock.now },
    });
    onTestFinished(() => own.close());
    const { pr, verify } = await own.requestInvoice(own.newWallet(), 21);
    await own.service.stop();
    own.mint.pay(pr);

    const back = await useAdditionalService(own, {}, { ...FAST, clock: clock.now });
    const { pathname } = new URL(verify);
    await eventually(async () => {
      expect((await requestJson(back.url, pathname)).body.settled).toBe(true);
    });
  });

  it('is found after its invoice has expired', async () => {
    const { mint, wallet, updates } = await receiveAt({ hasWebSocket: false, expirySeconds: 60 });
    const { pr } = await world.requestInvoice(wallet, 21);
    clock.advance(HOUR_MS);
    await polled(mint, 1);
    mint.pay(pr);
    await nextUpdate(updates, { every: 2 * HOUR_MS });
    expect(await wallet.listQuotes()).toMatchObject([{ state: 'PAID' }]);
  });

  it('is reported for the first quote of a mint without waiting for a scan', async () => {
    const own = await createTestEnvironment({ overrides: { scanIntervalMs: HOUR_MS } });
    onTestFinished(() => own.close());
    const wallet = own.newWallet();
    const socket = await openSocket(wallet);
    const { pr } = await own.requestInvoice(wallet, 21);
    await subscribed(own.mint);
    own.mint.pay(pr);
    await nextUpdate(socket);
  });

  it('is recorded as soon as the database works again', async () => {
    const { mint, wallet, updates } = await receiveAt();
    const { pr } = await world.requestInvoice(wallet, 21);
    await subscribed(mint);
    const { db } = world.database;
    await sql`alter table quote_events rename to broken`.execute(db);
    mint.pay(pr);
    await errors.waitForText('mint_watch_failed');
    expect(await wallet.listQuotes()).toEqual([]);
    await sql`alter table broken rename to quote_events`.execute(db);
    await nextUpdate(updates);
  });
});

describe('a poll without news', () => {
  it('writes nothing', async () => {
    const { mint, wallet } = await receiveAt({ hasWebSocket: false });
    await world.requestInvoice(wallet, 21);
    const paid = await world.requestInvoice(wallet, 34);
    mint.pay(paid.pr);
    await whileTimePasses(FIRST_POLL_MS, async () => {
      expect(await wallet.listQuotes()).toHaveLength(1);
    });
    const before = await rowVersions(wallet);
    const { batches } = pollsOf(mint);
    await whileTimePasses(PAID_POLL_MS, () => {
      expect(pollsOf(mint).batches).toBeGreaterThan(batches + 5);
    });
    expect(await rowVersions(wallet)).toEqual(before);
  });

  async function rowVersions(wallet: TestWallet): Promise<unknown[]> {
    const { rows } = await sql`
      select quotes.*, (select count(*) from quote_events where quote = quotes.id and kind <> 'update_sent') as events from quotes where pubkey = ${wallet.pubkey} order by id`.execute(
      world.database.db,
    );
    expect(rows).toHaveLength(2);
    return rows;
  }
});

describe('a quote whose announcement was lost', () => {
  it('is found by the next rescan, however many others were issued since', async () => {
    const { mint, wallet, updates } = await receiveAt({ hasWebSocket: false });
    await world.requestInvoice(wallet, 21);
    await polled(mint, 1);

    const body = JSON.stringify({ amount: 21, unit: 'sat' });
    const response = await fetch(`${mint.url}/v1/mint/quote/bolt11`, { method: 'POST', body });
    const created = (await response.json()) as { quote: string; request: string };
    const { quote: quoteId, request: pr } = created;
    const known = { quoteId, request: pr, mintUrl: mint.url, createdAtMs: clock.nowMs };
    await store.quotes.insert([buildUnpaidQuote(wallet.pubkey, known)]);
    await insertWatchedQuotes('http://127.0.0.1:1', 1_500);
    mint.pay(pr);
    expect(await nextUpdate(updates, { every: RESCAN_MS })).toBe(quoteId);
  });

  async function insertWatchedQuotes(mintUrl: string, count: number): Promise<void> {
    for (let index = 0; index < count; index += 1) {
      await store.quotes.insert([buildUnpaidQuote(randomPubkey(), { mintUrl })]);
    }
  }
});

describe('a quote whose ecash is minted', () => {
  it('is found by polling alone, with the time of signing', async () => {
    const { mint, wallet, updates } = await receiveAt({ hasWebSocket: false, issueDelayMs: 1_000 });
    await pay(mint, wallet, 21);
    const quoteId = await nextUpdate(updates, { every: FIRST_POLL_MS });
    const collected = collect(mint, 21, quoteId);
    await expect.poll(() => mint.quotes.get(quoteId)?.state).toBe('PENDING');
    expect(await nextUpdate(updates, { every: PAID_POLL_MS })).toBe(quoteId);
    expect(await wallet.listQuotes()).toMatchObject([{ quoteId, state: 'INFLIGHT' }]);
    await collected;
    expect(await nextUpdate(updates, { every: INFLIGHT_POLL_MS })).toBe(quoteId);
    expect(await wallet.listQuotes()).toMatchObject([{ quoteId, state: 'ISSUED' }]);
  });

  it('ends the watch of its mint after a while, until the next invoice', async () => {
    const { mint, wallet, updates } = await receiveAt();
    await pay(mint, wallet, 21);
    await collect(mint, 21, await nextUpdate(updates));
    await nextUpdate(updates);
    await whileTimePasses(LINGER_MS, () => expect(mint.openSocketCount).toBe(0));

    await pay(mint, wallet, 34);
    await nextUpdate(updates);
    await subscribed(mint);
    expect(await wallet.listQuotes()).toMatchObject([
      { amount: 34, state: 'PAID' },
      { amount: 21, state: 'ISSUED' },
    ]);
  });
});

describe('a mint that does not respond', () => {
  it('does not delay the stop of the service', async () => {
    const own = await createTestEnvironment({ overrides: { ...FAST, clock: clock.now } });
    onTestFinished(() => own.close());
    const wallet = own.newWallet();
    await own.requestInvoice(wallet, 21);
    await subscribed(own.mint);
    await polled(own.mint, 1);
    own.mint.switches.isUnresponsive = true;
    await whileTimePasses(COVERED_POLL_MS, () => expect(pollsOf(own.mint).batches).toBe(2));
    const waiting = requestJson(own.origin, `/.well-known/lnurlp/${wallet.npub}?amount=34000`);
    await eventually(() => expect(own.mint.requestCounts[CREATE]).toBe(2));

    const startedAt = performance.now();
    await own.service.stop();
    expect(performance.now() - startedAt).toBeLessThan(STOP_DEADLINE_MS);
    expect((await waiting).body).toMatchObject({ status: 'ERROR' });
  });
});

describe('a faulty mint', () => {
  const PAYMENTS = 12;

  it.each<[string, Partial<TestMintSwitches>]>([
    ['cuts and garbles every third response', onPolls({ garbage: 0.2, cutAfter: 0.2 })],
    ['rate-limits every third request', onPolls({ rateLimit: 0.2, bareRateLimit: 0.2 })],
    ['fails every batch', onBatches({ error: 1 })],
    ['answers batches in another order, and twice', onBatches({ shuffledBatch: 1 })],
    ['no longer has its batch route', { hasWebSocket: false, batch: 'absent' }],
    ['accepts smaller batches than it advertised', { hasWebSocket: false, maxBatchSize: 3 }],
    ['is silent on its socket', { isWebSocketSilent: true }],
    [
      'loses every other message of its socket and sends stale states',
      { chaos: { rates: { lostMessage: 0.5, staleFirstState: 1 } } },
    ],
  ])('that %s loses no payment', async (_how, switches) => {
    const { mint, wallet } = await receiveAt();
    const invoices = await askInvoices(wallet, PAYMENTS);
    Object.assign(mint.switches, switches);
    for (const { pr } of invoices) {
      mint.pay(pr);
    }
    await whileTimePasses(SECOND_MS, async () => {
      expect(await wallet.listQuotes()).toHaveLength(PAYMENTS);
    });
  });

  it.each(['nutshell', 'cdk'] as const)(
    'that rejects a batch for one unknown id, like %s, loses no payment',
    async (style) => {
      const { mint, wallet } = await receiveAt({ hasWebSocket: false, style });
      const invoices: { pr: string }[] = [];
      for (let index = 0; index < PAYMENTS; index += 1) {
        if (index % 5 === 0) {
          await insertUnknownQuote(mint, clock.nowMs);
        }
        invoices.push(...(await askInvoices(wallet, 1)));
      }
      for (const { pr } of invoices) {
        mint.pay(pr);
      }
      await whileTimePasses(SECOND_MS, async () => {
        expect(await wallet.listQuotes()).toHaveLength(PAYMENTS);
      });
    },
  );

  it('without a batch route is asked for young quotes first, and for old ones too', async () => {
    const OLD = 150;
    const { mint, wallet } = await receiveAt({ hasWebSocket: false, batch: 'absent' });
    for (let index = 0; index < OLD; index += 1) {
      await insertUnknownQuote(mint, clock.nowMs - 5 * HOUR_MS);
    }
    await pay(mint, wallet, 21);
    await whileTimePasses(SECOND_MS, async () => {
      expect(await wallet.listQuotes()).toHaveLength(1);
    });
    await whileTimePasses(SECOND_MS, () => {
      expect(mint.requestCounts[READ]).toBeGreaterThan(OLD);
    });
  });
});

describe('outages', () => {
  const wall = new TestClock();
  const monotonic = new TestClock();
  const hard = useTestEnvironment({
    mint: { now: monotonic.now, switches: { hasWebSocket: false } },
    overrides: {
      ...FAST,
      clock: wall.now,
      monotonicMs: monotonic.now,
      fetchLimits: { headersTimeoutMs: 900, totalTimeoutMs: 1_000 },
    },
  });
  let wallet: TestWallet;

  beforeEach(() => {
    wallet = hard.newWallet();
  });

  it('end no watch when the wall clock jumps ahead by a year and back', async () => {
    const { pr } = await hard.requestInvoice(wallet, 21);
    wall.advance(365 * DAY_MS);
    monotonic.advance(2 * HOUR_MS);
    await polledAgain();
    wall.advance(-365 * DAY_MS);
    hard.mint.pay(pr);
    await untilListed();
  });

  it('of many mints delay no payment at another mint; dead mints are polled a few at a time', async () => {
    const DEAD = 60;
    const dead = await startDeadMints(DEAD);
    for (const mintUrl of dead.urls) {
      await new Store(hard.database.db).quotes.insert([
        buildUnpaidQuote(wallet.pubkey, { mintUrl, createdAtMs: wall.nowMs }),
      ]);
    }
    const updates = await openSocket(wallet);
    // Each is polled once before it is known to be dead.
    await eventually(() => expect(dead.polled.size).toBe(DEAD));
    await eventually(() => expect(dead.open).toBe(0));
    dead.mostAtOnce = 0;
    for (let round = 0; round < 3; round += 1) {
      const { pr } = await hard.requestInvoice(wallet, 21);
      monotonic.advance(4 * SECOND_MS);
      hard.mint.pay(pr);
      monotonic.advance(60 * SECOND_MS);
      expect((await updates.nextMessage()).type).toBe('update');
    }
    await eventually(() => {
      monotonic.advance(SECOND_MS);
      expect(dead.polls).toBeGreaterThanOrEqual(3 * DEAD);
    });
    expect(dead.mostAtOnce).toBeGreaterThan(1);
    expect(dead.mostAtOnce).toBeLessThanOrEqual(32);
  });

  async function untilListed(): Promise<void> {
    await eventually(async () => {
      monotonic.advance(SECOND_MS);
      expect(await wallet.listQuotes()).toHaveLength(1);
    });
  }

  async function polledAgain(): Promise<void> {
    const { batches } = pollsOf(hard.mint);
    await eventually(() => {
      monotonic.advance(SECOND_MS);
      expect(pollsOf(hard.mint).batches).toBeGreaterThan(batches);
    });
  }

  /** Mints that accept requests and never respond. Counts the polls that are open concurrently. */
  async function startDeadMints(mints: number) {
    const dead = {
      urls: [] as string[],
      polled: new Set<number>(),
      polls: 0,
      open: 0,
      mostAtOnce: 0,
    };
    for (let index = 0; index < mints; index += 1) {
      const server = createServer((incoming) => {
        if (incoming.method !== 'POST') {
          return;
        }
        dead.polled.add(index);
        dead.polls += 1;
        dead.open += 1;
        dead.mostAtOnce = Math.max(dead.mostAtOnce, dead.open);
        incoming.once('close', () => {
          dead.open -= 1;
        });
      });
      const { url, close } = await listenOnLoopback(server);
      onTestFinished(close);
      dead.urls.push(url);
    }
    return dead;
  }
});

function onPolls(rates: object): Partial<TestMintSwitches> {
  return {
    hasWebSocket: false,
    chaos: { rates: {}, ratesByRoute: { [BATCH]: rates, [READ]: rates } },
  };
}

function onBatches(rates: object): Partial<TestMintSwitches> {
  return { hasWebSocket: false, chaos: { rates: {}, ratesByRoute: { [BATCH]: rates } } };
}

async function askInvoices(wallet: TestWallet, count: number): Promise<{ pr: string }[]> {
  const invoices: { pr: string }[] = [];
  for (let index = 0; index < count; index += 1) {
    invoices.push(await world.requestInvoice(wallet, 21));
  }
  return invoices;
}

async function insertUnknownQuote({ url: mintUrl }: TestMint, createdAtMs: number): Promise<void> {
  const stranger = randomBytes(32).toString('hex');
  await store.quotes.insert([buildUnpaidQuote(stranger, { mintUrl, createdAtMs })]);
}

/** A recipient with an open quote socket and a mint that only this test uses. */
async function receiveAt(switches: Partial<TestMintSwitches> = {}): Promise<{
  mint: TestMint;
  wallet: TestWallet;
  updates: TestQuoteSocket;
}> {
  const mint = await startMint(switches, { now: clock.now });
  const wallet = world.newWallet();
  expect((await setMint(wallet, mint.url)).status).toBe(200);
  return { mint, wallet, updates: await openSocket(wallet) };
}

async function openSocket(wallet: TestWallet): Promise<TestQuoteSocket> {
  const socket = await wallet.openSocket();
  onTestFinished(() => socket.close());
  return socket;
}

/**
 * The id of the next `update`.
 *
 * @param options.every lets time pass in steps of this length until it arrives
 */
async function nextUpdate(
  updates: TestQuoteSocket,
  options: { every?: number } = {},
): Promise<string> {
  const { every = 0 } = options;
  const passing = setInterval(() => clock.advance(every), 50);
  const message = await updates.nextMessage();
  clearInterval(passing);
  expect(message.type).toBe('update');
  return message.payload.quoteId;
}

/** A wallet turns a paid quote into ecash. */
async function collect(mint: TestMint, amountSat: number, quoteId: string): Promise<void> {
  const wallet = new Wallet(mint.url, { unit: 'sat' });
  await wallet.loadMint();
  await wallet.mintProofsBolt11(amountSat, quoteId);
}

/** An invoice of a recipient who chose this mint, and its payment. */
async function pay(mint: TestMint, wallet: TestWallet, amountSat: number): Promise<void> {
  const { pr } = await world.requestInvoice(wallet, amountSat);
  mint.pay(pr);
}

async function subscribed(mint: TestMint): Promise<void> {
  await eventually(() => expect(mint.openSocketCount).toBe(1));
}

function pollsOf(mint: TestMint): { batches: number; reads: number } {
  return { batches: mint.requestCounts[BATCH], reads: mint.requestCounts[READ] };
}

/** Resolves when the mint got this many polls. */
async function polled(mint: TestMint, polls: number): Promise<void> {
  await eventually(() => {
    const { batches, reads } = pollsOf(mint);
    expect(batches + reads).toBeGreaterThanOrEqual(polls);
  });
}

/** Lets time pass in steps of this length until something holds. */
async function whileTimePasses(stepMs: number, holds: () => void | Promise<void>): Promise<void> {
  await eventually(async () => {
    clock.advance(stepMs);
    await holds();
  });
}

/** Where the last change of a quote was observed. */
async function sourceOf(quoteId: string): Promise<string | undefined> {
  const { id } = await world.database.db
    .selectFrom('quotes')
    .select('id')
    .where('quote_id', '=', quoteId)
    .executeTakeFirstOrThrow();
  const changes = (await store.quoteEvents.listByQuote(id)).filter(
    (event) => event.kind === 'state',
  );
  return changes.at(-1)?.source;
}
