import type { DatabaseHost } from './harness/database.ts';
import type { BoundedRow, Figure } from './harness/figure.ts';
import { NodeProcess } from './harness/node-process.ts';
import { fellBehind } from './harness/pace.ts';
import { keepRecipients } from './harness/recipients.ts';
import { percent } from './harness/report.ts';
import { type BenchServer, startService } from './harness/servers.ts';
import { median, percentile, spreadOf } from './harness/statistics.ts';
import { TestMints } from './harness/test-mints.ts';
import type { PaymentPlan, PaymentResult, WrongUpdates } from './processes/payer.ts';

/** As one-tap zaps are paid. */
const PAID_AFTER_MS = 300;

/** Invoices a second, and for how many seconds: the slowest twentieth has to be several payments. */
const LOADS = [
  { perSecond: 5, seconds: 30 },
  { perSecond: 20, seconds: 15 },
  { perSecond: 200, seconds: 10 },
] as const;

const BOUNDS_MS = { p50: 30, p95: 300 } as const;

/** Each has a wallet with a socket, and at the highest rate is paid every 2.5 s. */
const RECIPIENTS = 512;

/** Compiles the hot code. */
const WARM_UP_SECONDS = 3;

/** Opening the wallets' sockets, and the warm-up. */
const PREPARATION_MS = 120_000;

type Load = (typeof LOADS)[number];

/** Times in milliseconds. */
interface Run {
  p50: number;
  p95: number;
  slowest: number;
  /** Of a core each, while it was measured. */
  payerBusy: number;
  mintBusy: number;
  serviceBusy: number;
  /** How much longer the requests took than planned, as a share of the time. */
  lateness: number;
  repeated: number;
  unread: number;
  wrong: WrongUpdates;
}

/**
 * From a payment at its mint until the recipient's wallet receives `update`, 0.3 s after the invoice was
 * requested: by then the service must have subscribed to the quote. All quotes are of one mint without limits.
 */
export const paymentToUpdate: Figure = {
  async measure(databases, effort) {
    await using mints = await TestMints.start({ mints: 1, delayMs: 0 });
    const runs = new Map<Load, Run[]>(LOADS.map((load) => [load, []]));
    for (let run = 0; run < effort.runs; run += 1) {
      await measureLoads(databases, mints, runs);
    }
    return [...runs].flatMap(([load, ofLoad]) => [
      toRow('p50', load, ofLoad),
      toRow('p95', load, ofLoad),
    ]);
  },
};

/** Starts a service, and measures every load at it. */
async function measureLoads(
  databases: DatabaseHost,
  mints: TestMints,
  runs: ReadonlyMap<Load, Run[]>,
): Promise<void> {
  const [mint] = mints.mints;
  if (mint === undefined) {
    throw new Error('no test mint was started');
  }
  await using database = await databases.create();
  const recipients = await keepRecipients(database, [mint.url], RECIPIENTS);
  const secretKeys = recipients.map(({ secretKey }) => secretKey);
  await using service = await startService(mint, database);
  for (const [load, ofLoad] of runs) {
    const plan = { url: service.url, payUrl: mint.payUrl, secretKeys };
    ofLoad.push(await measureLoad(load, plan, mints.process, service));
  }
}

async function measureLoad(
  { perSecond, seconds }: Load,
  plan: Pick<PaymentPlan, 'url' | 'payUrl' | 'secretKeys'>,
  mintProcess: NodeProcess,
  service: BenchServer,
): Promise<Run> {
  const input: PaymentPlan = {
    ...plan,
    warmUps: WARM_UP_SECONDS * perSecond,
    payments: seconds * perSecond,
    perSecond,
    paidAfterMs: PAID_AFTER_MS,
  };
  const program = import.meta.resolve('./processes/payer.ts');
  await using payer = new NodeProcess('the payer', program, { input });
  await payer.next<'warm'>(PREPARATION_MS);
  const before = await usage();
  const { latenciesMs, ...result } = await payer.next<PaymentResult>(seconds * 1000);
  const after = await usage();
  const wrong = await payer.next<WrongUpdates>();
  const busy = (which: 'payer' | 'mint' | 'service') =>
    (after[which] - before[which]) / (after.atMs - before.atMs);
  return {
    p50: percentile(latenciesMs, 0.5),
    p95: percentile(latenciesMs, 0.95),
    slowest: Math.max(...latenciesMs),
    payerBusy: busy('payer'),
    mintBusy: busy('mint'),
    serviceBusy: busy('service'),
    lateness: result.seconds / seconds - 1,
    repeated: result.repeated,
    unread: result.unread,
    wrong,
  };

  async function usage() {
    return {
      atMs: performance.now(),
      payer: await payer.cpuMs(),
      mint: await mintProcess.cpuMs(),
      service: await service.process.cpuMs(),
    };
  }
}

function toRow(share: 'p50' | 'p95', { perSecond }: Load, runs: readonly Run[]): BoundedRow {
  const spread = spreadOf(runs.map((run) => run[share]));
  const busy = (which: 'payerBusy' | 'mintBusy' | 'serviceBusy') =>
    percent(median(runs.map((run) => run[which])));
  const slowest = Math.max(...runs.map((run) => run.slowest)).toFixed(1);
  return {
    title: `payment to update, ${PAID_AFTER_MS / 1000} s after its invoice, ${perSecond} a second, ${share}`,
    ours: spread.median,
    spread,
    unit: 'ms',
    atMost: BOUNDS_MS[share],
    notes:
      share === 'p50'
        ? [
            `busy, of a core: service ${busy('serviceBusy')}, mint ${busy('mintBusy')}, payer ${busy('payerBusy')}`,
          ]
        : [`slowest: ${slowest} ms`],
    // Said once.
    problems: share === 'p50' ? runs.flatMap(problemsOf) : [],
    run: { runs },
  };
}

function problemsOf({ payerBusy, mintBusy, lateness, repeated, unread, wrong }: Run): string[] {
  return [
    ...(fellBehind({ busy: Math.max(payerBusy, mintBusy), lateness })
      ? ['the payer or the mint was too busy or too late, and may be what was measured']
      : []),
    ...(repeated + unread > 0
      ? [`${repeated} updates about a quote that had one before, ${unread} left over`]
      : []),
    ...(wrong > 0 ? [`${wrong} updates about a quote that was not paid or is not listed`] : []),
  ];
}
