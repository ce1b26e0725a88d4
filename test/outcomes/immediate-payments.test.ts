import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { percentile } from '../../bench/harness/statistics.ts';
import { useWorld } from '../helpers/world.ts';
import { sendPayers } from './payers.ts';
import { REAL_TIME } from './time-scale.ts';
import { Updates } from './updates.ts';

/**
 * Payments that follow their invoices at once, as one-tap zaps do. The bench holds the exact bounds (30 ms
 * at p50, 300 ms at p95) at up to 200 invoices a second. These bounds leave room for a busy machine with
 * everything in one process; a payment that waits for a poll takes seconds.
 */
const P50_SECONDS = 0.15;
const P95_SECONDS = 1;

const PAID_AFTER_MS = 300;

/** Enough that each is paid every few seconds. */
const RECIPIENTS = 60;

const time = REAL_TIME;
const world = useWorld();

describe('a payment 0.3 s after its invoice', () => {
  it.each([5, 20])('is notified at once, at %i invoices a second', async (perSecond) => {
    const recipients = Array.from({ length: RECIPIENTS }, () => world.newWallet());
    await using updates = await Updates.open(time, recipients);
    const payments: { quoteId: string; paidAt: number }[] = [];
    await sendPayers({
      time,
      service: world.service,
      recipients,
      perMinute: perSecond * 60,
      minutes: 10 / 60,
      onInvoice: async (invoice) => {
        await delay(PAID_AFTER_MS);
        const paidAt = time.now();
        payments.push({ quoteId: world.mint.pay(invoice).id, paidAt });
      },
    });
    expect(payments).toHaveLength(perSecond * 10);
    const delays = await updates.delaysOf(payments);
    expect(percentile(delays, 0.5)).toBeLessThanOrEqual(P50_SECONDS);
    expect(percentile(delays, 0.95)).toBeLessThanOrEqual(P95_SECONDS);
  });
});
