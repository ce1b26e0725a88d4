import { type Event, verifyEvent } from 'nostr-tools';
import { Zap } from 'nostr-tools/kinds';
import { getSatoshisAmountFromBolt11, validateZapRequest } from 'nostr-tools/nip57';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import type { Database } from '../../src/database/database.ts';
import { openLog } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import { createTestDatabase, type TestDatabase } from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';
import { startRelay } from '../helpers/relays.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { TestRelay } from '../helpers/test-relay.ts';
import { request, TestWallet } from '../helpers/wallet.ts';
import { testConfig } from '../helpers/world.ts';
import { countsAt, standingAt } from '../helpers/zap-outbox.ts';
import {
  TEST_ZAP_SECRET_KEY,
  type ZapOrder,
  zapQuery,
  zapRequest,
} from '../helpers/zap-requests.ts';

/** From a payer's zap to the receipt that wallets find at relays (NIP-57), as each of them sees it. */

const AMOUNT_MSAT = 21_000;
const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

let testDatabase: TestDatabase;
let database: Database;
let mint: TestMint;
let clock: TestClock;
let ownRelay: TestRelay;
let running: Service | null = null;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  database = await testDatabase.open();
  mint = await TestMint.start({ now: () => clock.nowMs });
});

afterAll(async () => {
  await database.close();
  await testDatabase.drop();
  await mint.close();
});

beforeEach(async () => {
  clock = new TestClock();
  ownRelay = await TestRelay.start({ now: clock.now });
  await start();
});

afterEach(async () => {
  await stop();
  await ownRelay.close();
  await database.db.deleteFrom('quotes').execute();
  await database.db.deleteFrom('relays').execute();
});

describe('a zap that is paid', () => {
  it('has its receipt at the relays that it names and at the operator’s, as wallets check it', async () => {
    const relay = await startRelay();
    const zap = await payZap({ relays: [relay.url, ownRelay.url, `${relay.url}/`] });
    for (const each of [relay, ownRelay]) {
      await each.waitFor(1);
      const [receipt] = each.events.values();
      await expectGoodReceipt(receipt, zap);
      expect([...each.timesSent.values()]).toEqual([1]);
    }
    expect([...relay.events]).toEqual([...ownRelay.events]);
    const [quote] = await zap.wallet.listQuotes();
    const [receipt] = relay.events.values();
    expect(receipt?.created_at).toBe(quote?.['paidAt']);
  });
});

describe('a receipt that a relay does not take', () => {
  it('for now is sent again later, the same to the letter', async () => {
    const relay = await startRelay({ rejectWith: 'error: could not write' });
    await payZap({ relays: [relay.url] });
    await ownRelay.waitFor(1);
    const [receipt] = ownRelay.events.values();
    const id = receipt?.id ?? '';
    for (const [tries, distanceMs] of [
      [1, 10 * SECOND_MS],
      [2, 30 * SECOND_MS],
      [3, 90 * SECOND_MS],
    ] as const) {
      await eventually(async () => expect(await standing(relay, id)).toMatchObject({ tries }));
      expect(await standing(relay, id)).toMatchObject({
        state: 'open',
        last_word: 'error: could not write',
        next_try_at: clock.nowMs + distanceMs,
      });
      clock.advance(distanceMs);
    }
    relay.switches.rejectWith = null;
    clock.advance(10 * MINUTE_MS);
    await relay.waitFor(1);
    expect(JSON.stringify(relay.events.get(id))).toBe(JSON.stringify(receipt));
    await untilCounts(relay, { accepted: 1 });
  });
});

describe('a service that ends', () => {
  it('and takes no zaps any more brings those of before to their relays', async () => {
    const relay = await startRelay();
    await relay.stop();
    await payZap({ relays: [relay.url] });
    await ownRelay.waitFor(1);
    await stop();
    await relay.restart();
    clock.advance(HOUR_MS);
    await start({});
    await relay.waitFor(1);
    expect([...relay.events]).toEqual([...ownRelay.events]);
  });
});

/** What was zapped. */
interface PaidZap {
  wallet: TestWallet;
  /** The zap request as its sender signed it. */
  event: Event;
  text: string;
  /** The invoice. */
  pr: string;
}

async function start(env?: Record<string, string>): Promise<void> {
  const zaps = { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY, ZAP_RELAYS: ownRelay.url };
  running = await startService(testConfig(mint.url, env ?? zaps), {
    database,
    clock: clock.now,
    log: openLog('silent'),
    pollGapMs: 0,
    relayTiming: { answerTimeoutMs: SECOND_MS },
  });
}

async function stop(): Promise<void> {
  await running?.stop();
  running = null;
}

function service(): Service {
  if (running === null) {
    throw new Error('the service has stopped');
  }
  return running;
}

function newWallet(): TestWallet {
  return new TestWallet(service().publicOrigin, clock.now);
}

/** A payer's zap: the invoice, and its payment at the mint. */
async function payZap(order: Partial<ZapOrder>, wallet = newWallet()): Promise<PaidZap> {
  const { event, text } = zapRequest({
    recipient: wallet.pubkey,
    amountMsat: AMOUNT_MSAT,
    comment: 'für dich 🥜',
    ...order,
  });
  const pr = await pay(wallet, zapQuery(text, AMOUNT_MSAT));
  return { wallet, event, text, pr };
}

async function pay(wallet: TestWallet, query: string): Promise<string> {
  const path = `/.well-known/lnurlp/${wallet.npub}?${query}`;
  const { body } = await request(service().url, path);
  expect(body).toHaveProperty('pr');
  mint.pay(body.pr);
  return body.pr;
}

/** What a wallet looks at before it shows a zap (NIP-57 appendix F). */
async function expectGoodReceipt(receipt: Event | undefined, zap: PaidZap): Promise<void> {
  const { body } = await request(service().url, `/.well-known/lnurlp/${zap.wallet.npub}`);
  if (receipt === undefined) {
    throw new Error('there is no receipt');
  }
  expect(verifyEvent({ ...receipt })).toBe(true);
  expect(receipt).toMatchObject({ kind: Zap, pubkey: body.nostrPubkey, content: '' });
  const tag = (name: string) => receipt.tags.find(([first]) => first === name)?.[1];
  expect(tag('p')).toBe(zap.wallet.pubkey);
  expect(tag('P')).toBe(zap.event.pubkey);
  expect(tag('bolt11')).toBe(zap.pr);
  expect(tag('description')).toBe(zap.text);
  expect(validateZapRequest(tag('description') ?? '')).toBeNull();
  expect(getSatoshisAmountFromBolt11(zap.pr)).toBe(AMOUNT_MSAT / 1_000);
  expect(tag('preimage')).toBeUndefined();
}

async function untilCounts(relay: TestRelay, counts: Record<string, number>): Promise<void> {
  await eventually(async () => expect(await countsAt(database, relay.url)).toEqual(counts));
}

/** The way of a receipt to a relay. */
async function standing(relay: TestRelay, id: string) {
  return (await standingAt(database, relay.url)).get(id);
}
