import { Wallet } from '@cashu/cashu-ts';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { TestMintSwitches } from '../../src/demo/test-mint/switches.ts';
import { TestMint } from '../../src/demo/test-mint.ts';
import { orderOfTurn } from '../../src/domain/check-turns.ts';
import { Store } from '../../src/store/store.ts';
import { eventually } from '../helpers/eventually.ts';
import { startBeside } from '../helpers/second-service.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { dueAt, unpaidQuote } from '../helpers/unpaid-quotes.ts';
import { request, type TestSocket, type TestWallet } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';

/**
 * The watcher inside the real service: each test brings a mint of its own, and moves the service's
 * clock to when a quote is due.
 */

const CREATE = 'POST /v1/mint/quote/bolt11';
const BATCH = 'POST /v1/mint/quote/bolt11/check';
const READ = 'GET /v1/mint/quote/bolt11/:id';

/** The command line ends a service by force when it takes longer to stop. */
const STOP_DEADLINE_MS = 10_000;

/** When a fresh unpaid quote is due first. */
const FIRST_CHECK_MS = 4_000;
/** When a young paid one is due, where no socket covers it. */
const PAID_CHECK_MS = 20_000;
/** When an INFLIGHT one is due. */
const INFLIGHT_CHECK_MS = 3_000;
/** So long a mint is kept that owes nothing any more. */
const LINGER_MS = 10 * 60_000;

/** Looks come as fast as they can, so that moving the clock is all it takes. */
const FAST = { scanIntervalMs: 5, pollGapMs: 0 };

let clock: TestClock;
let world: World;
let store: Store;

beforeAll(async () => {
  clock = new TestClock();
  world = await openWorld({ surroundings: { ...FAST, clock: clock.now } });
  store = new Store(world.database.db);
});

afterAll(() => world.close());

beforeEach(async () => {
  // What other tests left open is nobody's business any more.
  await world.database.db.updateTable('quotes').set({ next_check_at: null }).execute();
});

describe('a payment', () => {
  it('is heard of through the mint’s socket, with no poll at all', async () => {
    const { mint, wallet, updates } = await receiveAt();
    const { pr } = await world.askInvoice(wallet, 21);
    await subscribed(mint);
    mint.pay(pr);
    const quoteId = await nextUpdate(updates);
    expect(await wallet.listQuotes()).toMatchObject([
      { quoteId, amount: 21, state: 'PAID', mintUrl: mint.url },
    ]);
    expect(pollsOf(mint)).toEqual({ batches: 0, reads: 0 });
  });

  it.each([
    ['in batches', 'advertised', { batches: 1, reads: 0 }],
    ['in batches that the mint keeps to itself', 'unadvertised', { batches: 1, reads: 0 }],
    ['one by one, after one try', 'absent', { batches: 1, reads: 1 }],
  ] as const)('is found by polling alone, %s', async (_how, batch, polls) => {
    const { mint, wallet, updates } = await receiveAt({ socket: false, batch });
    await pay(mint, wallet, 21);
    clock.advance(FIRST_CHECK_MS);
    const quoteId = await nextUpdate(updates);
    expect(await wallet.listQuotes()).toMatchObject([{ quoteId, state: 'PAID' }]);
    expect(pollsOf(mint)).toEqual(polls);
    expect(mint.requestCounts['GET /v1/ws']).toBe(0);
  });

  it.each([
    ['its socket', { socket: true }],
    ['polling', { socket: false }],
  ])('keeps its expiry and its lock where %s tells of neither', async (_way, way) => {
    const { mint, wallet, updates } = await receiveAt({ ...way, dropLaterFacts: true });
    await wallet.send('PATCH', '/api/v2/user/lock', { lockQuotes: true });
    await pay(mint, wallet, 21);
    clock.advance(FIRST_CHECK_MS);
    await nextUpdate(updates);
    const [quote] = await wallet.listQuotes();
    expect(quote).toMatchObject({ locked: true, state: 'PAID' });
    expect(Number(quote?.['expiresAt']) - Number(quote?.['createdAt'])).toBe(3_600);
  });

  it('is found by polling where the socket says OK and then nothing', async () => {
    const { mint, wallet, updates } = await receiveAt({ socketSilent: true });
    const { pr } = await world.askInvoice(wallet, 21);
    await subscribed(mint);
    clock.advance(FIRST_CHECK_MS);
    await nothingDue(mint);
    mint.pay(pr);
    // A quote that a socket covers is looked at less often, but it is.
    clock.advance(20_000);
    await nextUpdate(updates);
    expect(pollsOf(mint).batches).toBe(2);
  });

  it('is found by polling while the socket is broken', async () => {
    const { mint, wallet, updates } = await receiveAt();
    const { pr } = await world.askInvoice(wallet, 21);
    await subscribed(mint);
    mint.switches.socket = false;
    mint.dropSockets();
    mint.pay(pr);
    clock.advance(FIRST_CHECK_MS);
    await nextUpdate(updates);
  });

  it.each([
    ['by the socket', { socket: true }],
    ['by polling', { socket: false }],
  ])('made while the service was down is found %s when it is back', async (_way, way) => {
    const own = await openWorld({
      mint: { switches: way, now: clock.now },
      surroundings: { ...FAST, clock: clock.now },
    });
    onTestFinished(() => own.close());
    const { pr, verify } = await own.askInvoice(own.newWallet(), 21);
    await own.service.stop();
    own.mint.pay(pr);

    const back = await startBeside(own, {}, { ...FAST, clock: clock.now });
    onTestFinished(() => back.stop());
    if (!way.socket) {
      clock.advance(FIRST_CHECK_MS);
    }
    const { pathname } = new URL(verify);
    await eventually(async () => {
      expect((await request(back.url, pathname)).body.settled).toBe(true);
    });
    expect(pollsOf(own.mint)).toEqual({ batches: way.socket ? 0 : 1, reads: 0 });
  });

  it('is found after its invoice has ended', async () => {
    const { mint, wallet, updates } = await receiveAt({ socket: false, expirySeconds: 60 });
    const { pr } = await world.askInvoice(wallet, 21);
    clock.advance(3_600_000);
    await nothingDue(mint);
    mint.pay(pr);
    clock.advance(2 * 3_600_000);
    await nextUpdate(updates);
    expect(await wallet.listQuotes()).toMatchObject([{ state: 'PAID' }]);
  });

  it('at the mint that was chosen before is found there', async () => {
    const { mint, wallet, updates } = await receiveAt({ socket: false });
    const { pr } = await world.askInvoice(wallet, 21);
    const next = await startMint();
    await chooseMint(wallet, next);
    mint.pay(pr);
    clock.advance(FIRST_CHECK_MS);
    await nextUpdate(updates);
    await pay(next, wallet, 34);
    await nextUpdate(updates);
    expect(await wallet.listQuotes()).toMatchObject([
      { amount: 34, mintUrl: next.url },
      { amount: 21, mintUrl: mint.url },
    ]);
  });
});

describe('collecting', () => {
  it('is heard of through the socket, signing and all', async () => {
    const { mint, wallet, updates } = await receiveAt({ issuePauseMs: 1_000 });
    await pay(mint, wallet, 21);
    const quoteId = await nextUpdate(updates);
    const collected = collect(mint, 21, quoteId);
    expect(await nextUpdate(updates)).toBe(quoteId);
    expect(await wallet.listQuotes()).toMatchObject([{ quoteId, state: 'INFLIGHT' }]);
    await collected;
    expect(await nextUpdate(updates)).toBe(quoteId);
    expect(await wallet.listQuotes()).toMatchObject([{ quoteId, state: 'ISSUED' }]);
    expect(pollsOf(mint)).toEqual({ batches: 0, reads: 0 });
  });

  it('is found by polling alone, signing and all', async () => {
    const { mint, wallet, updates } = await receiveAt({ socket: false, issuePauseMs: 1_000 });
    await pay(mint, wallet, 21);
    clock.advance(FIRST_CHECK_MS);
    const quoteId = await nextUpdate(updates);
    const collected = collect(mint, 21, quoteId);
    await eventually(() => expect(mint.quotes.get(quoteId)?.state).toBe('PENDING'));
    clock.advance(PAID_CHECK_MS);
    expect(await nextUpdate(updates)).toBe(quoteId);
    expect(await wallet.listQuotes()).toMatchObject([{ quoteId, state: 'INFLIGHT' }]);
    await collected;
    clock.advance(INFLIGHT_CHECK_MS);
    expect(await nextUpdate(updates)).toBe(quoteId);
    expect(await wallet.listQuotes()).toMatchObject([{ quoteId, state: 'ISSUED' }]);
  });

  it('ends the watch after a while: a mint that owes nothing has no socket, until the next invoice', async () => {
    const { mint, wallet, updates } = await receiveAt();
    await pay(mint, wallet, 21);
    await collect(mint, 21, await nextUpdate(updates));
    await nextUpdate(updates);
    clock.advance(LINGER_MS + 1);
    await eventually(() => expect(mint.openSocketCount).toBe(0));

    await pay(mint, wallet, 34);
    await nextUpdate(updates);
    expect(mint.openSocketCount).toBe(1);
    expect(await wallet.listQuotes()).toMatchObject([
      { amount: 34, state: 'PAID' },
      { amount: 21, state: 'ISSUED' },
    ]);
  });
});

describe('a mint that is no good', () => {
  it('and says how long instead of until when loses nobody a payment', async () => {
    const { mint, wallet, updates } = await receiveAt({ socket: false });
    const invoice = await world.askInvoice(wallet, 21);
    await world.database.db
      .updateTable('quotes')
      .set({ expires_at: new Date(3_600_000) })
      .where('pubkey', '=', wallet.pubkey)
      .execute();
    clock.advance(FIRST_CHECK_MS);
    await eventually(() => expect(pollsOf(mint).batches).toBeGreaterThan(0));
    await nothingDue(mint);
    mint.pay(invoice.pr);
    clock.advance(FIRST_CHECK_MS);
    expect(await nextUpdate(updates)).toBe([...mint.quotes.keys()][0]);
  });

  it.each(['nutshell', 'cdk'] as const)(
    'like %s, which refuses a batch for one unknown id, tells of the others all the same',
    async (style) => {
      const { mint, wallet, updates } = await receiveAt({ socket: false, style });
      const invoices = [];
      for (let index = 0; index < 12; index += 1) {
        if (index % 5 === 0) {
          await store.quotes.insert(
            unpaidQuote(wallet.pubkey, {
              mintUrl: mint.url,
              createdAtMs: clock.nowMs,
              nextCheck: dueAt(clock.nowMs),
            }),
          );
        }
        invoices.push(await world.askInvoice(wallet, 21 + index));
      }
      for (const { pr } of invoices) {
        mint.pay(pr);
      }
      clock.advance(FIRST_CHECK_MS);
      const told = new Set<string>();
      while (told.size < invoices.length) {
        told.add(await nextUpdate(updates));
      }
      expect((await wallet.listQuotes()).map((quote) => quote['request']).toSorted()).toEqual(
        invoices.map(({ pr }) => pr).toSorted(),
      );
    },
  );

  it('does not delay the payments of another by being dead', async () => {
    const dead = await receiveAt({ socket: false });
    await world.askInvoice(dead.wallet, 21);
    dead.mint.switches.dead = true;
    const { mint, wallet, updates } = await receiveAt({ socket: false });
    clock.advance(FIRST_CHECK_MS);
    await polled(dead.mint, 1);

    await pay(mint, wallet, 34);
    clock.advance(FIRST_CHECK_MS);
    await nextUpdate(updates);
    expect(pollsOf(dead.mint).batches).toBe(1);
  });

  it('does not hold up the end of the service by being dead', async () => {
    const own = await openWorld({ surroundings: { ...FAST, clock: clock.now } });
    onTestFinished(() => own.close());
    const wallet = own.newWallet();
    await own.askInvoice(wallet, 21);
    await subscribed(own.mint);
    own.mint.switches.dead = true;
    clock.advance(FIRST_CHECK_MS);
    await polled(own.mint, 1);
    const waiting = request(own.base, `/.well-known/lnurlp/${wallet.npub}?amount=34000`);
    await eventually(() => expect(own.mint.requestCounts[CREATE]).toBe(2));

    const startedAt = performance.now();
    await own.service.stop();
    expect(performance.now() - startedAt).toBeLessThan(STOP_DEADLINE_MS);
    expect((await waiting).body).toMatchObject({ status: 'ERROR' });
  });

  it('and says 429 to a batch gets no more for a minute; the young are asked one by one', async () => {
    const { mint, wallet, updates } = await receiveAt({ socket: false });
    const { pr } = await world.askInvoice(wallet, 21);
    const other = await receiveAt({ socket: false });
    mint.switches.rateLimit = { perMinute: 3 };
    for (let polls = 1; polls <= 3; polls += 1) {
      clock.advance(FIRST_CHECK_MS);
      await nothingDue(mint);
    }
    mint.pay(pr);
    clock.advance(FIRST_CHECK_MS);
    await polled(mint, 4);

    // Twelve looks at what is due, each of which asks the other mint.
    for (let seconds = 5; seconds <= 60; seconds += 5) {
      await world.askInvoice(other.wallet, 21);
      clock.advance(5_000);
      await nothingDue(other.mint);
      expect(pollsOf(mint).batches).toBe(4);
    }
    await nextUpdate(updates);
    expect(pollsOf(mint).reads).toBeGreaterThan(0);
    clock.advance(30_000);
    await polled(mint, 5);
  });
});

/** A recipient who chose a mint of this test's own, with a socket of ours that is open. */
async function receiveAt(switches: Partial<TestMintSwitches> = {}): Promise<{
  mint: TestMint;
  wallet: TestWallet;
  updates: TestSocket;
}> {
  const mint = await startMint(switches);
  const wallet = world.newWallet();
  await chooseMint(wallet, mint);
  return { mint, wallet, updates: await openSocket(wallet) };
}

async function startMint(switches: Partial<TestMintSwitches> = {}): Promise<TestMint> {
  const mint = await TestMint.start({ switches, now: clock.now });
  onTestFinished(() => mint.close());
  return mint;
}

async function openSocket(wallet: TestWallet): Promise<TestSocket> {
  const socket = await wallet.openSocket();
  onTestFinished(() => socket.close());
  return socket;
}

async function chooseMint(wallet: TestWallet, mint: TestMint): Promise<void> {
  const { status } = await wallet.send('PATCH', '/api/v2/user/mint', { mint_url: mint.url });
  expect(status).toBe(200);
}

async function nextUpdate(updates: TestSocket): Promise<string> {
  const message = await updates.next();
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
  const { pr } = await world.askInvoice(wallet, amountSat);
  mint.pay(pr);
}

async function subscribed(mint: TestMint): Promise<void> {
  await eventually(() => expect(mint.openSocketCount).toBe(1));
}

function pollsOf(mint: TestMint): { batches: number; reads: number } {
  return { batches: mint.requestCounts[BATCH], reads: mint.requestCounts[READ] };
}

/** Resolves when the mint was asked so many batches. */
async function polled(mint: TestMint, batches: number): Promise<void> {
  await eventually(() => expect(pollsOf(mint).batches).toBeGreaterThanOrEqual(batches));
}

/** Resolves when all that the mint was to be asked about by now is answered, and written down. */
async function nothingDue(mint: TestMint): Promise<void> {
  const due = () => store.watch.listDue(mint.url, clock.nowMs, 1, orderOfTurn(0));
  await eventually(async () => expect(await due()).toEqual([]));
}
