import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { percentile } from '../../bench/harness/statistics.ts';
import { useTestEnvironment } from '../helpers/test-environment.ts';
import { simulatePayers } from './payer-simulation.ts';
import { REAL_TIME } from './time-scale.ts';
import { UpdateRecorder } from './update-recorder.ts';

/**
 * Payments that immediately follow their invoices, like one-tap zaps. The benchmark checks the exact
 * bounds (30 ms at p50, 300 ms at p95) at up to 200 invoices per second. These bounds allow for a busy
 * machine that runs everything in one process; a payment that waits for a poll takes seconds.
 */
const P50_SECONDS = 0.15;
const P95_SECONDS = 1;

const PAID_AFTER_MS = 300;

/** Enough recipients that each one is paid only every few seconds. */
const RECIPIENT_COUNT = 60;

const time = REAL_TIME;
const world = useTestEnvironment();

describe('a payment 0.3 s after its invoice', () => {
  it.each([5, 20])(
    'is reported to the recipient within a second at %i invoices per second',
    async (perSecond) => {
      const recipients = Array.from({ length: RECIPIENT_COUNT }, () => world.newWallet());
      await using updates = await UpdateRecorder.open(time, recipients);
      const payments: { quoteId: string; paidAt: number }[] = [];
      await simulatePayers({
        time,
        service: world.service,
        recipients,
        perMinute: perSecond * 60,
        minutes: 10 / 60,
        onInvoice: async (invoice) => {
          await delay(PAID_AFTER_MS);
          const paidAt = time.nowSeconds();
          payments.push({ quoteId: world.mint.pay(invoice).id, paidAt });
        },
      });
      expect(payments).toHaveLength(perSecond * 10);
      const delays = await updates.waitForDelays(payments);
      expect(percentile(delays, 0.5)).toBeLessThanOrEqual(P50_SECONDS);
      expect(percentile(delays, 0.95)).toBeLessThanOrEqual(P95_SECONDS);
    },
  );
});
