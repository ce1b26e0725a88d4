import { type Event, verifyEvent } from 'nostr-tools';
import { Zap } from 'nostr-tools/kinds';
import { getSatoshisAmountFromBolt11, validateZapRequest } from 'nostr-tools/nip57';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import type { Database } from '../../src/database/database.ts';
import { createLogger } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import { createTestDatabase, type TestDatabase } from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';
import { startRelay } from '../helpers/start-test-relay.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { testConfig } from '../helpers/test-environment.ts';
import { TestRelay } from '../helpers/test-relay.ts';
import { requestJson, TestWallet } from '../helpers/test-wallet.ts';
import { countDeliveriesByState, readDeliveriesTo } from '../helpers/zap-receipt-outbox.ts';
import {
  buildZapQuery,
  createZapRequest,
  TEST_ZAP_SECRET_KEY,
  type ZapRequestOptions,
} from '../helpers/zap-requests.ts';

/** Zaps from the payer's request to the receipt at the relays (NIP-57). */

const AMOUNT_MSAT = 21_000;
const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

let testDatabase: TestDatabase;
let database: Database;
let mint: TestMint;
let clock: TestClock;
let operatorRelay: TestRelay;
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
  operatorRelay = await TestRelay.start({ now: clock.now });
  await start();
});

afterEach(async () => {
  await stop();
  await operatorRelay.close();
  await database.db.deleteFrom('quotes').execute();
  await database.db.deleteFrom('relays').execute();
});

describe('a paid zap', () => {
  it('has one valid receipt at each requested relay and at the operator’s relay', async () => {
    const relay = await startRelay();
    const zap = await payZap({ relays: [relay.url, operatorRelay.url, `${relay.url}/`] });
    for (const each of [relay, operatorRelay]) {
      await each.waitForEvents(1);
      const [receipt] = each.events.values();
      await expectValidReceipt(receipt, zap);
      expect([...each.receiveCounts.values()]).toEqual([1]);
    }
    expect([...relay.events]).toEqual([...operatorRelay.events]);
    const [quote] = await zap.wallet.listQuotes();
    const [receipt] = relay.events.values();
    expect(receipt?.created_at).toBe(quote?.['paidAt']);
  });
});

describe('a receipt that a relay rejects', () => {
  it('temporarily is retried unchanged with backoff', async () => {
    const relay = await startRelay({ rejectionMessage: 'error: could not write' });
    await payZap({ relays: [relay.url] });
    await operatorRelay.waitForEvents(1);
    const [receipt] = operatorRelay.events.values();
    const id = receipt?.id ?? '';
    for (const [attempts, backoffMs] of [
      [1, 10 * SECOND_MS],
      [2, 30 * SECOND_MS],
      [3, 90 * SECOND_MS],
    ] as const) {
      await eventually(async () =>
        expect(await readDelivery(relay, id)).toMatchObject({ attempts }),
      );
      expect(await readDelivery(relay, id)).toMatchObject({
        state: 'open',
        last_result: 'error: could not write',
        next_attempt_at: clock.nowMs + backoffMs,
      });
      clock.advance(backoffMs);
    }
    relay.switches.rejectionMessage = null;
    clock.advance(10 * MINUTE_MS);
    await relay.waitForEvents(1);
    expect(JSON.stringify(relay.events.get(id))).toBe(JSON.stringify(receipt));
    await waitForCounts(relay, { accepted: 1 });
  });
});

describe('a service that restarts without zap support', () => {
  it('still delivers pending receipts', async () => {
    const relay = await startRelay();
    await relay.stop();
    await payZap({ relays: [relay.url] });
    await operatorRelay.waitForEvents(1);
    await stop();
    await relay.restart();
    clock.advance(HOUR_MS);
    await start({});
    await relay.waitForEvents(1);
    expect([...relay.events]).toEqual([...operatorRelay.events]);
  });
});

interface PaidZap {
  wallet: TestWallet;
  /** The signed zap request. */
  event: Event;
  text: string;
  /** BOLT 11 invoice. */
  pr: string;
}

async function start(env?: Record<string, string>): Promise<void> {
  const zaps = { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY, ZAP_RELAYS: operatorRelay.url };
  running = await startService(testConfig(mint.url, env ?? zaps), {
    database,
    clock: clock.now,
    log: createLogger('silent'),
    pollIntervalMs: 0,
    relayTimeouts: { responseTimeoutMs: SECOND_MS },
  });
}

async function stop(): Promise<void> {
  await running?.stop();
  running = null;
}

function runningService(): Service {
  if (running === null) {
    throw new Error('the service is stopped');
  }
  return running;
}

function newWallet(): TestWallet {
  return new TestWallet(runningService().publicOrigin, clock.now);
}

/** Requests an invoice for a zap and pays it at the mint. */
async function payZap(
  overrides: Partial<ZapRequestOptions>,
  wallet = newWallet(),
): Promise<PaidZap> {
  const { event, text } = createZapRequest({
    recipient: wallet.pubkey,
    amountMsat: AMOUNT_MSAT,
    comment: 'für dich 🥜',
    ...overrides,
  });
  const pr = await pay(wallet, buildZapQuery(text, AMOUNT_MSAT));
  return { wallet, event, text, pr };
}

async function pay(wallet: TestWallet, query: string): Promise<string> {
  const path = `/.well-known/lnurlp/${wallet.npub}?${query}`;
  const { body } = await requestJson(runningService().url, path);
  expect(body).toHaveProperty('pr');
  mint.pay(body.pr);
  return body.pr;
}

/** Makes the checks of NIP-57 appendix F. */
async function expectValidReceipt(receipt: Event | undefined, zap: PaidZap): Promise<void> {
  const { body } = await requestJson(
    runningService().url,
    `/.well-known/lnurlp/${zap.wallet.npub}`,
  );
  if (receipt === undefined) {
    throw new Error('no receipt');
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

async function waitForCounts(relay: TestRelay, counts: Record<string, number>): Promise<void> {
  await eventually(async () =>
    expect(await countDeliveriesByState(database, relay.url)).toEqual(counts),
  );
}

/** Reads the delivery row of a receipt for a relay. */
async function readDelivery(relay: TestRelay, id: string) {
  return (await readDeliveriesTo(database, relay.url)).get(id);
}
