import { afterEach, describe, expect, it } from 'vitest';
import { percentile } from '../../bench/harness/statistics.ts';
import type { TestMintSwitches } from '../../demo/test-mint/switches.ts';
import { createTestEnvironment, type TestEnvironment } from '../helpers/test-environment.ts';
import type { TestWallet } from '../helpers/test-wallet.ts';
import {
  calculateServedShare,
  filterRequestedBetween,
  simulatePayers,
  TRUST_PROXY_ENV,
} from './payer-simulation.ts';
import { REAL_TIME } from './time-scale.ts';
import { UpdateRecorder } from './update-recorder.ts';

/** A mint without limits behind a proxy that sometimes sends 429 without `Retry-After`. */

const time = REAL_TIME;

const CREATE = 'POST /v1/mint/quote/bolt11';
const CHECK = 'POST /v1/mint/quote/bolt11/check';

/** Enough recipients that a stray 429 does not delay a recipient's next payment. */
const RECIPIENT_COUNT = 100;

const TEST_TIMEOUT_MS = 180_000;

let world: TestEnvironment;

afterEach(() => world.close());

describe('a single 429', () => {
  it('does not prevent full service 10 s later if it rejects an invoice', async () => {
    await startEnvironment();
    world.mint.rateLimitNext(CREATE);
    const rejectedAt = time.nowSeconds();
    const load = { recipients: [world.newWallet()], perMinute: 120, minutes: 0.4 };
    const payers = await simulatePayers({ time, service: world.service, ...load });
    expect(calculateServedShare(filterRequestedBetween(payers, rejectedAt + 10))).toBe(1);
    expect(world.mint.requestCounts[CREATE]).toBeGreaterThan(payers.length / 2);
  });

  it('delays notifications by at most 10 s if it rejects a poll', async () => {
    await startEnvironment({ hasWebSocket: false });
    world.mint.rateLimitNext(CHECK);
    const { delays } = await payEach({ recipients: 10, perMinute: 60, minutes: 0.3 });
    expect(world.mint.requestCounts[CHECK]).toBeGreaterThan(1);
    expect(delays.at(-1)).toBeLessThanOrEqual(10);
  });
});

describe('1 % stray 429s on every route at 10 invoices per second', () => {
  it(
    'let 95 % of payers get invoices and delay payments by at most 10 s at p99',
    async () => {
      await startEnvironment({ chaos: { rates: { bareRateLimit: 0.01 } } });
      const load = { recipients: RECIPIENT_COUNT, perMinute: 600, minutes: 1 };
      const { payers, recipients, delays } = await payEach(load);
      expect(world.mint.chaosCounts.bareRateLimit).toBeGreaterThan(2);
      expect(calculateServedShare(payers)).toBeGreaterThanOrEqual(0.95);
      expect(percentile(delays, 0.99)).toBeLessThanOrEqual(10);
      const listed = await Promise.all(recipients.map((wallet) => wallet.listQuotes()));
      expect(listed.flat()).toHaveLength(delays.length);
    },
    TEST_TIMEOUT_MS,
  );
});

async function startEnvironment(switches: Partial<TestMintSwitches> = {}): Promise<void> {
  world = await createTestEnvironment({
    mint: { switches },
    env: TRUST_PROXY_ENV,
    overrides: time.serviceOverrides,
  });
}

/** Simulates payers who pay immediately and measures how long each notification takes. */
async function payEach(load: { recipients: number; perMinute: number; minutes: number }) {
  const recipients = Array.from({ length: load.recipients }, (): TestWallet => world.newWallet());
  await using updates = await UpdateRecorder.open(time, recipients);
  const payments: { quoteId: string; paidAt: number }[] = [];
  const payers = await simulatePayers({
    time,
    service: world.service,
    ...load,
    recipients,
    onInvoice: (invoice) => {
      payments.push({ quoteId: world.mint.pay(invoice).id, paidAt: time.nowSeconds() });
    },
  });
  return { payers, recipients, delays: await updates.waitForDelays(payments) };
}
