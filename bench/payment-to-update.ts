import type { Figure, Row } from './harness/figure.ts';
import { NodeProcess } from './harness/node-process.ts';
import { type BenchMint, startMint, startService } from './harness/servers.ts';
import { median, percentile } from './harness/statistics.ts';
import type { PaymentPlan, PaymentResult } from './processes/payer.ts';

const PAYMENTS_PER_SECOND = 50;

/** One by one, until the hot code is compiled. */
const WARM_UPS = 50;

/** With the warm-ups within the 750 quotes that the watcher has on its socket at a time. */
const MAX_PAYMENTS = 700;

/** Keys, sockets and invoices; and the watcher subscribes within seconds, because it spares mints. */
const PREPARATION_MS = 30_000;

/** One run of one side, in milliseconds. */
interface Run {
  p50: number;
  p99: number;
  worst: number;
}

/**
 * From a payment at the mint until the recipient's wallet hears `update`, for quotes that the mint's
 * socket covers by then: the wait for a poll is a matter of the schedule, not of speed. Floor: until
 * a bare socket of the mint says `PAID` (NUT-17).
 */
export const paymentToUpdate: Figure = {
  name: 'payment-to-update',
  async measure(databases, effort) {
    await using mint = await startMint();
    const payments = Math.min(PAYMENTS_PER_SECOND * effort.seconds, MAX_PAYMENTS);
    const runs: { ours: Run; floor: Run }[] = [];
    for (let run = 0; run < effort.runs; run += 1) {
      runs.push({ ours: await measureOurs(), floor: await measurePayer(mint, payments) });
    }
    return [toRow('p50', runs), toRow('p99', runs)];

    async function measureOurs(): Promise<Run> {
      await using database = await databases.create();
      await using service = await startService(mint, database);
      return await measurePayer(mint, payments, service.url);
    }
  },
};

async function measurePayer(mint: BenchMint, payments: number, serviceUrl?: string): Promise<Run> {
  const input: PaymentPlan = {
    payUrl: mint.payUrl,
    mintUrl: mint.url,
    ...(serviceUrl !== undefined && { serviceUrl }),
    warmUps: WARM_UPS,
    payments,
    perSecond: PAYMENTS_PER_SECOND,
  };
  const program = import.meta.resolve('./processes/payer.ts');
  await using payer = new NodeProcess('the payer', program, { input });
  const { latenciesMs } = await payer.next<PaymentResult>(
    PREPARATION_MS + (payments / PAYMENTS_PER_SECOND) * 1000,
  );
  return {
    p50: percentile(latenciesMs, 0.5),
    p99: percentile(latenciesMs, 0.99),
    worst: Math.max(...latenciesMs),
  };
}

function toRow(share: 'p50' | 'p99', runs: readonly { ours: Run; floor: Run }[]): Row {
  const ours = median(runs.map((run) => run.ours[share]));
  const floor = median(runs.map((run) => run.floor[share]));
  const ratios = runs.map((run) => run.ours[share] / run.floor[share]);
  return {
    title: `payment to update, ${PAYMENTS_PER_SECOND} a second, ${share}`,
    ours,
    floor,
    unit: 'ms',
    ratio: ours / floor,
    lowestRatio: Math.min(...ratios),
    highestRatio: Math.max(...ratios),
    notes: [`ours less the floor: ${(ours - floor).toFixed(1)} ms`],
    problems: [],
    runs: [...runs],
  };
}
