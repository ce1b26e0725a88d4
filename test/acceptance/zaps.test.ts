import { type Event, verifyEvent } from 'nostr-tools';
import { Zap } from 'nostr-tools/kinds';
import { getSatoshisAmountFromBolt11, validateZapRequest } from 'nostr-tools/nip57';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import type { Database } from '../../src/database/database.ts';
import { createLogger } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import { createTestDatabase, type TestDatabase } from '../helpers/database/test-database.ts';
import { eventually } from '../helpers/eventually.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { FakeNostrRelay } from '../helpers/relays/fake-nostr-relay.ts';
import { startFakeRelay } from '../helpers/relays/start-fake-relay.ts';
import {
  countDeliveriesByState,
  readDeliveriesToRelay,
} from '../helpers/relays/zap-receipt-deliveries.ts';
import {
  buildZapQuery,
  createZapRequest,
  TEST_ZAP_SECRET_KEY,
  type ZapRequestOptions,
} from '../helpers/relays/zap-requests.ts';
import { createTestConfig } from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** Zaps from the payer's request to the receipt at the relays (NIP-57). */

const AMOUNT_MSAT = 21_000;
const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

let testDatabase: TestDatabase;
let database: Database;
let mint: TestMint;
let clock: TestClock;
let operatorRelay: FakeNostrRelay;
let service: Service | null = null;

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
  operatorRelay = await FakeNostrRelay.start({ now: clock.now });
  await startServiceUnderTest();
});

afterEach(async () => {
  await stopService();
  await operatorRelay.close();
  await database.db.deleteFrom('quotes').execute();
  await database.db.deleteFrom('relays').execute();
});

describe('a paid zap', () => {
  it('has one valid receipt at each requested relay and at the operator’s relay', async () => {
    const relay = await startFakeRelay();
    const zap = await payZap({ relays: [relay.url, operatorRelay.url, `${relay.url}/`] });
    expect(validateZapRequest(zap.text)).toBeNull();
    for (const receivingRelay of [relay, operatorRelay]) {
      await receivingRelay.waitForEvents(1);
      const [receipt] = receivingRelay.events.values();
      await expectValidReceipt(receipt, zap);
      expect([...receivingRelay.receiveCounts.values()]).toEqual([1]);
    }
    expect([...relay.events]).toEqual([...operatorRelay.events]);
    const [quote] = await zap.wallet.listPaidQuotes();
    const [receipt] = relay.events.values();
    expect(receipt?.created_at).toBe(quote?.['paidAt']);
  });
});

describe('a paid zap without usable relays', () => {
  it.each([[[]], [['wss://10.0.0.1', 'no']]])(
    'with the relays %j has its receipt at the operator’s relay',
    async (relays) => {
      const zap = await payZap({ relays });
      await operatorRelay.waitForEvents(1);
      const [receipt] = operatorRelay.events.values();
      await expectValidReceipt(receipt, zap);
    },
  );
});

describe('a receipt that a relay rejects temporarily', () => {
  it('is retried unchanged with backoff', async () => {
    const relay = await startFakeRelay({ rejectionMessage: 'error: could not write' });
    await payZap({ relays: [relay.url] });
    await operatorRelay.waitForEvents(1);
    const [receipt] = operatorRelay.events.values();
    const receiptId = receipt?.id ?? '';
    for (const [attempts, backoffMs] of [
      [1, 10 * SECOND_MS],
      [2, 20 * SECOND_MS],
      [3, 40 * SECOND_MS],
    ] as const) {
      await eventually(async () =>
        expect(await readDelivery(relay, receiptId)).toMatchObject({ attempts }),
      );
      expect(await readDelivery(relay, receiptId)).toMatchObject({
        state: 'open',
        last_result: 'error: could not write',
        next_attempt_at: clock.nowMs + backoffMs,
      });
      clock.advance(backoffMs);
    }
    relay.switches.rejectionMessage = null;
    clock.advance(10 * MINUTE_MS);
    await relay.waitForEvents(1);
    expect(JSON.stringify(relay.events.get(receiptId))).toBe(JSON.stringify(receipt));
    await waitForDeliveryCounts(relay, { accepted: 1 });
  });
});

describe('a service that restarts without zap support', () => {
  it('still delivers pending receipts', async () => {
    const relay = await startFakeRelay();
    await relay.stop();
    await payZap({ relays: [relay.url] });
    await operatorRelay.waitForEvents(1);
    await stopService();
    await relay.restart();
    clock.advance(HOUR_MS);
    await startServiceUnderTest({});
    await relay.waitForEvents(1);
    expect([...relay.events]).toEqual([...operatorRelay.events]);
  });
});

interface PaidZap {
  wallet: RecipientClient;
  /** The signed zap request. */
  event: Event;
  text: string;
  /** BOLT 11 invoice. */
  pr: string;
}

/** @param env replaces the settings that enable zaps */
async function startServiceUnderTest(env?: Record<string, string>): Promise<void> {
  const zapEnv = { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY, ZAP_RELAYS: operatorRelay.url };
  service = await startService(createTestConfig(mint.url, env ?? zapEnv), {
    database,
    clock: clock.now,
    log: createLogger('silent'),
    pollIntervalMs: 0,
  });
}

async function stopService(): Promise<void> {
  await service?.stop();
  service = null;
}

function getRunningService(): Service {
  if (service === null) {
    throw new Error('the service is stopped');
  }
  return service;
}

function newWallet(): RecipientClient {
  return new RecipientClient(getRunningService().publicOrigin, clock.now);
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
  const pr = await requestAndPayInvoice(wallet, buildZapQuery(text, AMOUNT_MSAT));
  return { wallet, event, text, pr };
}

async function requestAndPayInvoice(wallet: RecipientClient, query: string): Promise<string> {
  const path = `/.well-known/lnurlp/${wallet.npub}?${query}`;
  const { body } = await requestJson(getRunningService().url, path);
  expect(body).toHaveProperty('pr');
  mint.pay(body.pr);
  return body.pr;
}

/** Validates a receipt as a client does (NIP-57 appendix F). */
async function expectValidReceipt(receipt: Event | undefined, zap: PaidZap): Promise<void> {
  const { body } = await requestJson(
    getRunningService().url,
    `/.well-known/lnurlp/${zap.wallet.npub}`,
  );
  if (receipt === undefined) {
    throw new Error('no receipt');
  }
  expect(verifyEvent({ ...receipt })).toBe(true);
  expect(receipt).toMatchObject({ kind: Zap, pubkey: body.nostrPubkey, content: '' });
  const tagValue = (name: string) => receipt.tags.find(([first]) => first === name)?.[1];
  expect(tagValue('p')).toBe(zap.wallet.pubkey);
  expect(tagValue('P')).toBe(zap.event.pubkey);
  expect(tagValue('bolt11')).toBe(zap.pr);
  expect(tagValue('description')).toBe(zap.text);
  expect(getSatoshisAmountFromBolt11(zap.pr)).toBe(AMOUNT_MSAT / 1_000);
  expect(tagValue('preimage')).toBeUndefined();
}

async function waitForDeliveryCounts(
  relay: FakeNostrRelay,
  counts: Record<string, number>,
): Promise<void> {
  await eventually(async () =>
    expect(await countDeliveriesByState(database, relay.url)).toEqual(counts),
  );
}

async function readDelivery(relay: FakeNostrRelay, id: string) {
  return (await readDeliveriesToRelay(database, relay.url)).get(id);
}
