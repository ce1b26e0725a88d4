import { afterEach, describe, expect, it } from 'vitest';
import { percentile } from '../../bench/harness/statistics.ts';
import type { TestMintSwitches } from '../../demo/test-mint/switches.ts';
import type { TestWallet } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';
import { askedBetween, sendPayers, shareServed, TRUST_PAYERS_PROXY } from './payers.ts';
import { REAL_TIME } from './time-scale.ts';
import { Updates } from './updates.ts';

/** A mint without limits behind a proxy that sends 429 now and then, without `Retry-After`. */

const time = REAL_TIME;

const CREATE = 'POST /v1/mint/quote/bolt11';
const CHECK = 'POST /v1/mint/quote/bolt11/check';

/** Enough that a stray 429 costs no payment its second: a recipient's payments are a second apart. */
const RECIPIENTS = 100;

const TEST_TIMEOUT_MS = 180_000;

let world: World;

afterEach(() => world.close());

describe('one stray 429', () => {
  it('leaves full service within 10 s if it rejects an invoice', async () => {
    await open();
    world.mint.rateLimitNext(CREATE);
    const strayAt = time.now();
    const demand = { recipients: [world.newWallet()], perMinute: 120, minutes: 0.4 };
    const payers = await sendPayers({ time, service: world.service, ...demand });
    expect(shareServed(askedBetween(payers, strayAt + 10))).toBe(1);
    expect(world.mint.requestCounts[CREATE]).toBeGreaterThan(payers.length / 2);
  });

  it('leaves payments notified within 10 s if it rejects a poll', async () => {
    await open({ socket: false });
    world.mint.rateLimitNext(CHECK);
    const { delays } = await payEach({ recipients: 10, perMinute: 60, minutes: 0.3 });
    expect(world.mint.requestCounts[CHECK]).toBeGreaterThan(1);
    expect(delays.at(-1)).toBeLessThanOrEqual(10);
  });
});

describe('1 % stray 429s on every route, at 10 invoices a second', () => {
  it(
    'serves 95 % of the payers, and lists payments within 10 s at p99',
    async () => {
      await open({ chaos: { rates: { bareRateLimit: 0.01 } } });
      const demand = { recipients: RECIPIENTS, perMinute: 600, minutes: 1 };
      const { payers, recipients, delays } = await payEach(demand);
      expect(world.mint.chaosCounts.bareRateLimit).toBeGreaterThan(2);
      expect(shareServed(payers)).toBeGreaterThanOrEqual(0.95);
      expect(percentile(delays, 0.99)).toBeLessThanOrEqual(10);
      const listed = await Promise.all(recipients.map((wallet) => wallet.listQuotes()));
      expect(listed.flat()).toHaveLength(delays.length);
    },
    TEST_TIMEOUT_MS,
  );
});

async function open(switches: Partial<TestMintSwitches> = {}): Promise<void> {
  world = await openWorld({
    mint: { switches },
    env: TRUST_PAYERS_PROXY,
    surroundings: time.surroundings,
  });
}

/** Sends payers who pay at once, and measures how long each payment took to be notified. */
async function payEach(demand: { recipients: number; perMinute: number; minutes: number }) {
  const recipients = Array.from({ length: demand.recipients }, (): TestWallet => world.newWallet());
  await using updates = await Updates.open(time, recipients);
  const payments: { quoteId: string; paidAt: number }[] = [];
  const payers = await sendPayers({
    time,
    service: world.service,
    ...demand,
    recipients,
    onInvoice: (invoice) => {
      payments.push({ quoteId: world.mint.pay(invoice).id, paidAt: time.now() });
    },
  });
  return { payers, recipients, delays: await updates.delaysOf(payments) };
}
