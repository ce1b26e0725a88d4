import { afterEach, describe, expect, it } from 'vitest';
import { percentile } from '../../bench/harness/statistics.ts';
import type { TestMintSwitches } from '../../demo/test-mint/switches.ts';
import type { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import {
  createTestEnvironment,
  type TestEnvironment,
} from '../helpers/service/test-environment.ts';
import {
  calculateServedShare,
  filterRequestedBetween,
  simulatePayers,
  TRUST_PROXY_ENV,
} from './payer-simulation.ts';
import { REAL_TIME } from './time-scale.ts';
import { UpdateRecorder } from './update-recorder.ts';

const time = REAL_TIME;

const CREATE = 'POST /v1/mint/quote/bolt11';
const CHECK = 'POST /v1/mint/quote/bolt11/check';

/** So many that consecutive payments go to different recipients, whose notifications do not wait for one another. */
const RECIPIENT_COUNT = 100;

const TEST_TIMEOUT_MS = 180_000;

let environment: TestEnvironment;

afterEach(() => environment.close());

describe('a single 429 without Retry-After from a mint without limits', () => {
  it('does not affect invoices that are requested more than 10 s later', async () => {
    await startEnvironment();
    environment.mint.rateLimitNext(CREATE);
    const rejectedAt = time.nowSeconds();
    const load = { recipients: [environment.newWallet()], payersPerMinute: 120, minutes: 0.4 };
    const payers = await simulatePayers({ time, service: environment.service, ...load });
    expect(calculateServedShare(filterRequestedBetween(payers, rejectedAt + 10))).toBe(1);
    expect(environment.mint.requestCounts[CREATE]).toBeGreaterThan(payers.length / 2);
  });

  it('delays notifications by at most 10 s if it rejects a poll', async () => {
    await startEnvironment({ hasWebSocket: false });
    environment.mint.rateLimitNext(CHECK);
    const { delays } = await simulateImmediatePayments({
      recipientCount: 10,
      payersPerMinute: 60,
      minutes: 0.3,
    });
    expect(environment.mint.requestCounts[CHECK]).toBeGreaterThan(1);
    expect(delays.at(-1)).toBeLessThanOrEqual(10);
  });
});

describe('a mint that responds to 1 % of its requests with 429', () => {
  it(
    'serves 95 % of payers and reports payments within 10 s at p99, at 10 invoices per second',
    async () => {
      await startEnvironment({ chaos: { rates: { bareRateLimit: 0.01 } } });
      const load = { recipientCount: RECIPIENT_COUNT, payersPerMinute: 600, minutes: 1 };
      const { payers, recipients, delays } = await simulateImmediatePayments(load);
      expect(environment.mint.chaosCounts.bareRateLimit).toBeGreaterThan(2);
      expect(calculateServedShare(payers)).toBeGreaterThanOrEqual(0.95);
      expect(percentile(delays, 0.99)).toBeLessThanOrEqual(10);
      const paidQuotes = await Promise.all(recipients.map((wallet) => wallet.listPaidQuotes()));
      expect(paidQuotes.flat()).toHaveLength(delays.length);
    },
    TEST_TIMEOUT_MS,
  );
});

async function startEnvironment(switches: Partial<TestMintSwitches> = {}): Promise<void> {
  environment = await createTestEnvironment({
    mint: { switches },
    env: TRUST_PROXY_ENV,
    overrides: time.serviceOverrides,
  });
}

/** Simulates payers who pay immediately. Returns the seconds from each payment to its notification, sorted. */
async function simulateImmediatePayments(load: {
  recipientCount: number;
  payersPerMinute: number;
  minutes: number;
}) {
  const recipients = Array.from(
    { length: load.recipientCount },
    (): RecipientClient => environment.newWallet(),
  );
  await using updates = await UpdateRecorder.open(time, recipients);
  const payments: { quoteId: string; paidAtSeconds: number }[] = [];
  const payers = await simulatePayers({
    time,
    service: environment.service,
    ...load,
    recipients,
    onInvoice: (invoice) => {
      payments.push({
        quoteId: environment.mint.pay(invoice).id,
        paidAtSeconds: time.nowSeconds(),
      });
    },
  });
  return { payers, recipients, delays: await updates.waitForDelays(payments) };
}
