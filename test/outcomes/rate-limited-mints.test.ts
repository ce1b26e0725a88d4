import { describe, expect, it } from 'vitest';
import type { RateLimit } from '../../demo/test-mint/rate-limiter.ts';
import type { SentResponse } from '../../demo/test-mint/state.ts';
import { TestMint } from '../../demo/test-mint.ts';
import {
  createTestEnvironment,
  setMint,
  type TestEnvironment,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';
import { listInvoiceTimes, simulatePayers, TRUST_PROXY_ENV } from './payer-simulation.ts';
import { TEN_TIMES_FASTER } from './time-scale.ts';

const time = TEN_TIMES_FASTER;
const MINUTE_SECONDS = 60;

/** Time in which the service finds the right pauses for a sliding window, before the measurement. */
const LEARNING_MINUTES = 3;
const MEASURED_MINUTES = 10;

const TEST_TIMEOUT_MS = 180_000;

const OPTIONS = { env: TRUST_PROXY_ENV, overrides: time.serviceOverrides };
const environment = useTestEnvironment(OPTIONS);

describe.concurrent('a mint that allows 20 requests per minute in a sliding window', () => {
  it.concurrent.each([
    { payersPerMinute: 60, addressCount: 12 },
    { payersPerMinute: 30, addressCount: 12 },
    { payersPerMinute: 60, addressCount: 1 },
  ])(
    'creates 15 invoices per minute with fewer than 5 rejections per minute ($payersPerMinute payers per minute, $addressCount addresses)',
    async (load) => {
      const { invoicesPerMinute, rejections } = await measureInvoices(
        { requestsPerWindow: 20, windowKind: 'sliding' },
        load,
        LEARNING_MINUTES,
      );
      expect(invoicesPerMinute).toBeGreaterThanOrEqual(15);
      expect(rejections.length, describeRoutes(rejections)).toBeLessThan(5 * MEASURED_MINUTES);
    },
    TEST_TIMEOUT_MS,
  );
});

// In an elastic window, every request restarts the minute.
describe.concurrent('a mint that allows 20 requests per minute in an elastic window', () => {
  it.concurrent.each([
    { payersPerMinute: 60, addressCount: 12 },
    { payersPerMinute: 60, addressCount: 1 },
  ])(
    'creates 14 invoices per minute on average, with gaps of at most 110 s ($payersPerMinute payers per minute, $addressCount addresses)',
    async (load) => {
      const { invoicesPerMinute, longestGapSeconds } = await measureInvoices(
        { requestsPerWindow: 20 },
        load,
        0,
      );
      expect(invoicesPerMinute).toBeGreaterThanOrEqual(14);
      // The first gap may contain four rejected requests, and each of them adds the latency.
      expect(longestGapSeconds).toBeLessThanOrEqual(110 + 4 * time.latencySeconds);
    },
    TEST_TIMEOUT_MS,
  );
});

it.concurrent.for(['sliding', 'elastic'] as const)(
  'creates 6 invoices per minute with two processes if a mint allows 20 (window: %s)',
  { timeout: TEST_TIMEOUT_MS },
  async (windowKind, { onTestFinished }) => {
    // The rate limiter shares nothing between processes, so they do not need the same database.
    const second = await createTestEnvironment(OPTIONS);
    onTestFinished(() => second.close());
    const load = { payersPerMinute: 30, environments: [environment, second] };
    const rateLimit = { requestsPerWindow: 20, windowKind };
    const { invoicesPerMinute } = await measureInvoices(rateLimit, load, 0);
    expect(invoicesPerMinute).toBeGreaterThanOrEqual(6);
  },
);

async function measureInvoices(
  rateLimit: RateLimit,
  load: { payersPerMinute: number; addressCount?: number; environments?: TestEnvironment[] },
  learningMinutes: number,
) {
  const responses: SentResponse[] = [];
  const mint = await TestMint.start({
    switches: { rateLimit: { ...rateLimit, windowMs: time.mintWindowMs } },
    onResponse: (response) => responses.push(response),
  });
  try {
    const { environments = [environment], ...payerLoad } = load;
    const measuredFrom = time.nowSeconds() + learningMinutes * MINUTE_SECONDS;
    const measuredUntil = measuredFrom + MEASURED_MINUTES * MINUTE_SECONDS;
    const minutes = learningMinutes + MEASURED_MINUTES;
    const payers = await Promise.all(
      environments.map(async ({ service, newWallet }) => {
        const wallet = newWallet();
        await setMint(wallet, mint.url);
        return await simulatePayers({ time, service, recipients: [wallet], minutes, ...payerLoad });
      }),
    );
    const invoiceTimes = listInvoiceTimes(payers.flat(), measuredFrom, measuredUntil);
    return {
      invoicesPerMinute: invoiceTimes.length / MEASURED_MINUTES,
      longestGapSeconds: findLongestGapSeconds([measuredFrom, ...invoiceTimes, measuredUntil]),
      rejections: responses.filter(
        ({ status, sentAtMs }) => status === 429 && time.toSeconds(sentAtMs) >= measuredFrom,
      ),
    };
  } finally {
    await mint.close();
  }
}

function findLongestGapSeconds(timesSeconds: readonly number[]): number {
  return Math.max(
    ...timesSeconds
      .slice(1)
      .map((atSeconds, index) => atSeconds - (timesSeconds[index] ?? atSeconds)),
  );
}

function describeRoutes(responses: readonly SentResponse[]): string {
  const routes = Map.groupBy(responses, ({ route }) => route);
  return `429 responses: ${[...routes].map(([route, { length }]) => `${length} x ${route}`).join(', ')}`;
}
