import { describe, expect, it } from 'vitest';
import type { RateLimit } from '../../demo/test-mint/rate-limiter.ts';
import type { SentResponse } from '../../demo/test-mint/state.ts';
import { TestMint } from '../../demo/test-mint.ts';
import { setMint, useTestEnvironment } from '../helpers/test-environment.ts';
import { listInvoiceTimes, simulatePayers, TRUST_PROXY_ENV } from './payer-simulation.ts';
import { TEN_TIMES_FASTER } from './time-scale.ts';

/** Load above a mint's rate limit, at ten times the real speed. */

const time = TEN_TIMES_FASTER;
const MINUTE = 60;

/** The service learns a sliding limit before the measurement starts. */
const LEARNING_MINUTES = 3;
const MEASURED_MINUTES = 10;

const TEST_TIMEOUT_MS = 180_000;

const world = useTestEnvironment({ env: TRUST_PROXY_ENV, overrides: time.serviceOverrides });

describe('a mint that allows 20 requests per minute in a sliding window', () => {
  it.concurrent.each([
    { perMinute: 60, addressCount: 12 },
    { perMinute: 30, addressCount: 12 },
    { perMinute: 60, addressCount: 1 },
  ])(
    'yields 15 invoices and less than one 429 per minute with $perMinute payers per minute from $addressCount addresses',
    async (load) => {
      const { invoicesPerMinute, rejections } = await measure(
        { requestsPerWindow: 20, window: 'sliding' },
        load,
        LEARNING_MINUTES,
      );
      expect(invoicesPerMinute).toBeGreaterThanOrEqual(15);
      expect(rejections.length, describeRoutes(rejections)).toBeLessThan(MEASURED_MINUTES);
    },
    TEST_TIMEOUT_MS,
  );
});

describe('a mint that allows 20 requests per minute in an elastic window', () => {
  it.concurrent.each([
    { perMinute: 60, addressCount: 12 },
    { perMinute: 60, addressCount: 1 },
  ])(
    'yields 12 invoices per minute with gaps of at most 70 s with $perMinute payers per minute from $addressCount addresses',
    async (load) => {
      const { invoicesPerMinute, longestGap } = await measure({ requestsPerWindow: 20 }, load, 0);
      expect(invoicesPerMinute).toBeGreaterThanOrEqual(12);
      // Up to three rejected requests, each followed by a cooldown.
      expect(longestGap).toBeLessThanOrEqual(70 + 3 * time.latencySeconds);
    },
    TEST_TIMEOUT_MS,
  );
});

async function measure(
  rateLimit: RateLimit,
  load: { perMinute: number; addressCount: number },
  learningMinutes: number,
) {
  const responses: SentResponse[] = [];
  const mint = await TestMint.start({
    switches: { rateLimit: { ...rateLimit, windowMs: time.mintWindowMs } },
    onResponse: (response) => responses.push(response),
  });
  try {
    const wallet = world.newWallet();
    await setMint(wallet, mint.url);
    const from = time.nowSeconds() + learningMinutes * MINUTE;
    const to = from + MEASURED_MINUTES * MINUTE;
    const payers = await simulatePayers({
      time,
      service: world.service,
      recipients: [wallet],
      minutes: learningMinutes + MEASURED_MINUTES,
      ...load,
    });
    const invoices = listInvoiceTimes(payers, from, to);
    return {
      invoicesPerMinute: invoices.length / MEASURED_MINUTES,
      longestGap: findLongestGap([from, ...invoices, to]),
      rejections: responses.filter(
        ({ status, sentAtMs }) => status === 429 && time.toSeconds(sentAtMs) >= from,
      ),
    };
  } finally {
    await mint.close();
  }
}

function findLongestGap(times: readonly number[]): number {
  return Math.max(...times.slice(1).map((at, index) => at - (times[index] ?? at)));
}

function describeRoutes(responses: readonly SentResponse[]): string {
  const routes = Map.groupBy(responses, ({ route }) => route);
  return `429 responses: ${[...routes].map(([route, { length }]) => `${length} x ${route}`).join(', ')}`;
}
