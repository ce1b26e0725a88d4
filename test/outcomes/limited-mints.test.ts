import { describe, expect, it } from 'vitest';
import type { RateLimit } from '../../demo/test-mint/rate-limit.ts';
import type { SentAnswer } from '../../demo/test-mint/state.ts';
import { TestMint } from '../../demo/test-mint.ts';
import { chooseMint, useWorld } from '../helpers/world.ts';
import { invoiceTimes, sendPayers, TRUST_PAYERS_PROXY } from './payers.ts';
import { TEN_TIMES_FASTER } from './time-scale.ts';

/** What a mint with a rate limit gives, at a demand above its limit. Run at ten times the real speed. */

const time = TEN_TIMES_FASTER;
const MINUTE = 60;

/** A sliding limit is measured once it is known. */
const LEARNING_MINUTES = 3;
const MEASURED_MINUTES = 10;

const TEST_TIMEOUT_MS = 180_000;

const world = useWorld({ env: TRUST_PAYERS_PROXY, surroundings: time.surroundings });

describe('a mint that allows 20 requests a minute in a sliding window', () => {
  it.concurrent.each([
    { perMinute: 60, addresses: 12 },
    { perMinute: 30, addresses: 12 },
    { perMinute: 60, addresses: 1 },
  ])(
    'gives 15 invoices a minute and sends less than one 429 a minute, with $perMinute payers a minute from $addresses addresses',
    async (demand) => {
      const { invoicesPerMinute, rejections } = await measure(
        { perMinute: 20, window: 'sliding' },
        demand,
        LEARNING_MINUTES,
      );
      expect(invoicesPerMinute).toBeGreaterThanOrEqual(15);
      expect(rejections.length, describeRoutes(rejections)).toBeLessThan(MEASURED_MINUTES);
    },
    TEST_TIMEOUT_MS,
  );
});

describe('a mint that allows 20 requests a minute in an elastic window', () => {
  it.concurrent.each([
    { perMinute: 60, addresses: 12 },
    { perMinute: 60, addresses: 1 },
  ])(
    'gives 12 invoices a minute and none for at most 70 s, with $perMinute payers a minute from $addresses addresses',
    async (demand) => {
      const { invoicesPerMinute, longestGap } = await measure({ perMinute: 20 }, demand, 0);
      expect(invoicesPerMinute).toBeGreaterThanOrEqual(12);
      // Three refused requests end in a rest each.
      expect(longestGap).toBeLessThanOrEqual(70 + 3 * time.latency);
    },
    TEST_TIMEOUT_MS,
  );
});

async function measure(
  rateLimit: RateLimit,
  demand: { perMinute: number; addresses: number },
  learningMinutes: number,
) {
  const answers: SentAnswer[] = [];
  const mint = await TestMint.start({
    switches: { rateLimit: { ...rateLimit, windowMs: time.mintWindowMs } },
    onAnswer: (answer) => answers.push(answer),
  });
  try {
    const wallet = world.newWallet();
    await chooseMint(wallet, mint.url);
    const from = time.now() + learningMinutes * MINUTE;
    const to = from + MEASURED_MINUTES * MINUTE;
    const payers = await sendPayers({
      time,
      service: world.service,
      recipients: [wallet],
      minutes: learningMinutes + MEASURED_MINUTES,
      ...demand,
    });
    const invoices = invoiceTimes(payers, from, to);
    return {
      invoicesPerMinute: invoices.length / MEASURED_MINUTES,
      longestGap: longestGap([from, ...invoices, to]),
      rejections: answers.filter(
        ({ status, sentAtMs }) => status === 429 && time.toSeconds(sentAtMs) >= from,
      ),
    };
  } finally {
    await mint.close();
  }
}

function longestGap(times: readonly number[]): number {
  return Math.max(...times.slice(1).map((at, index) => at - (times[index] ?? at)));
}

function describeRoutes(answers: readonly SentAnswer[]): string {
  const routes = Map.groupBy(answers, ({ route }) => route);
  return `429s: ${[...routes].map(([route, { length }]) => `${length} x ${route}`).join(', ')}`;
}
