import { createPostgresDatabase } from '../harness/database.ts';
import type { Benchmark } from '../harness/figure.ts';
import {
  openRecipients,
  PAYMENT_DELAY_MS,
  PaymentGenerator,
} from '../harness/payment-generator.ts';
import { startNutpost, startTestMint } from '../harness/servers.ts';
import { percentile } from '../harness/statistics.ts';

const PERCENTILES = { p50: 0.5, p90: 0.9, p99: 0.99 };

/** The bounds by invoices per second. At 200, the service, the mint and the load use all of a small machine. */
const MAX_LATENCY_MS = new Map([
  [5, { p50: 30, p90: 30, p99: 60 }],
  [20, { p50: 30, p90: 30, p99: 60 }],
  [200, { p50: 30, p90: 300, p99: 600 }],
]);

/** Enough for two payments above p99. */
const MIN_PAYMENTS = 200;

/** Lets V8 compile hot code. */
const WARM_UP_SECONDS = 3;

/** Each recipient has a quote socket. At the highest rate, each recipient is paid every 2.5 s. */
const RECIPIENT_COUNT = 512;

/**
 * Measures the time from a payment at the mint until the recipient's wallet receives `update`. The payment
 * follows its invoice by 0.3 s. Within this time, the service must subscribe to the quote.
 */
export const measurePaymentToUpdate: Benchmark = async (serverUrl, options) => {
  await using mint = await startTestMint();
  const rates = [...MAX_LATENCY_MS].map(([rate, maxMs]) => ({
    rate,
    maxMs,
    runs: [] as number[][],
  }));
  for (let run = 0; run < options.runCount; run += 1) {
    await using database = await createPostgresDatabase(serverUrl);
    await using service = await startNutpost(mint.readyMessage.url, database);
    const recipients = await openRecipients(service, RECIPIENT_COUNT);
    const payer = new PaymentGenerator(service, mint, recipients);
    for (const { rate, runs } of rates) {
      await payer.payAtRate(rate, WARM_UP_SECONDS * rate);
      const paymentCount = Math.max(MIN_PAYMENTS, options.secondsPerRun * rate);
      runs.push(await payer.payAtRate(rate, paymentCount));
    }
    await payer.close();
  }
  return rates.flatMap(({ rate, maxMs, runs }) =>
    (['p50', 'p90', 'p99'] as const).map((percentileName) => ({
      title: `payment to update, ${PAYMENT_DELAY_MS / 1000} s after its invoice, ${rate} /s, ${percentileName}`,
      unit: 'ms' as const,
      runs: runs.map((run) => ({ service: percentile(run, PERCENTILES[percentileName]) })),
      bound: { maxValue: maxMs[percentileName] },
    })),
  );
};
