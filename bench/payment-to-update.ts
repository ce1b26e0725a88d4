import { compare } from './harness/compare.ts';
import type { DatabaseHost } from './harness/database.ts';
import type { ComparedRow, Figure } from './harness/figure.ts';
import { NodeProcess } from './harness/node-process.ts';
import { fellBehind } from './harness/pace.ts';
import { keepRecipients } from './harness/recipients.ts';
import { percent } from './harness/report.ts';
import { startService } from './harness/servers.ts';
import { median, percentile } from './harness/statistics.ts';
import { TestMints } from './harness/test-mints.ts';
import { WatchedDatabase } from './harness/watch-database.ts';
import type { Mistaken, PaymentPlan, PaymentResult } from './processes/payer.ts';

const PAYMENTS_PER_SECOND = 200;

/** What it may take longer than the mint's own push. */
const OVER_FLOOR_MS = { p50: 20, p99: 100 } as const;

/**
 * A socket takes 1,000 quotes in its life, and mints bear a new socket twice a minute: what one mint's
 * can tell for long is 33 payments a second, and so many payments are of several mints.
 */
const MINTS = 8;

/** What the watcher has on a socket at a time is 750; all that is paid is subscribed before. */
const MAX_QUOTES_PER_MINT = 700;

/** Each has a wallet with a socket, and is paid every few seconds. */
const RECIPIENTS = 512;

/** One by one, until the hot code is compiled and every mint's socket was heard. */
const WARM_UPS = 96;

/** The slowest hundredth has to be more than a few. */
const SHORTEST_SECONDS = 10;

/** Keys, sockets and invoices; and the watcher subscribes within seconds, because it spares mints. */
const PREPARATION_MS = 120_000;

/**
 * Each quote is asked about every 20 s too, and a few payments are seen by that within the moment that the
 * mint's word is on its way. Where it is a larger share, sockets were not what was measured.
 */
const MOST_POLLED = 0.02;

/** One run of one side; times in milliseconds. */
type Run = {
  p50: number;
  p99: number;
  worst: number;
  /** Of a core each, while it was measured; the service is idle where the mints are alone. */
  payerBusy: number;
  mintsBusy: number;
  serviceBusy: number;
  /** How much longer the payments took than planned, as a share of the time. */
  lateness: number;
  toldTwice: number;
  unread: number;
  mistaken: Mistaken;
};

/** `polled`: share of the payments that the service saw by asking, before a socket told; null: not counted. */
type OurRun = Run & { polled: number | null };

/**
 * From a payment at its mint until the recipient's wallet hears `update`, for quotes that the mint's
 * socket covers by then: the wait for a poll is a matter of the schedule, not of speed. Floor: until
 * a bare socket of the mint says `PAID` (NUT-17).
 */
export const paymentToUpdate: Figure = {
  async measure(databases, effort) {
    await using mints = await TestMints.start({ mints: MINTS, delayMs: 0 });
    const payments = Math.min(
      PAYMENTS_PER_SECOND * Math.max(effort.seconds, SHORTEST_SECONDS),
      MAX_QUOTES_PER_MINT * MINTS - WARM_UPS,
    );
    const runs: { ours: OurRun; floor: Run }[] = [];
    for (let run = 0; run < effort.runs; run += 1) {
      const ours = await measureOurs(databases, mints, payments);
      const floor = await measurePayer(mints, payments, null);
      runs.push({ ours, floor });
    }
    return [toRow('p50', runs), toRow('p99', runs)];
  },
};

async function measureOurs(
  databases: DatabaseHost,
  testMints: TestMints,
  payments: number,
): Promise<OurRun> {
  await using database = await databases.create();
  const mintUrls = testMints.mints.map(({ url }) => url);
  const recipients = await keepRecipients(database, mintUrls, RECIPIENTS);
  await using service = await startService({ url: mintUrls[0] ?? '' }, database);
  const plan = { url: service.url, recipients };
  const run = await measurePayer(testMints, payments, plan, service.process);
  const databaseUrl = database.env['DATABASE_URL'];
  if (databaseUrl === undefined) {
    return { ...run, polled: null };
  }
  await using seen = await WatchedDatabase.open(databaseUrl);
  return { ...run, polled: (await seen.countSeenByPoll()) / (payments + WARM_UPS) };
}

/** @param service null: the mints alone, heard over bare sockets */
async function measurePayer(
  testMints: TestMints,
  payments: number,
  service: PaymentPlan['service'],
  serviceProcess?: NodeProcess,
): Promise<Run> {
  const input: PaymentPlan = {
    mints: testMints.mints,
    service,
    warmUps: WARM_UPS,
    payments,
    perSecond: PAYMENTS_PER_SECOND,
  };
  const program = import.meta.resolve('./processes/payer.ts');
  await using payer = new NodeProcess('the payer', program, { input });
  await payer.next<'warm'>(PREPARATION_MS);
  const before = await look();
  const plannedSeconds = payments / PAYMENTS_PER_SECOND;
  const { latenciesMs, seconds, ...updates } = await payer.next<PaymentResult>(
    plannedSeconds * 1000,
  );
  const after = await look();
  const mistaken = await payer.next<Mistaken>();
  const busy = (which: 'payer' | 'mints' | 'service') =>
    (after[which] - before[which]) / (after.atMs - before.atMs);
  return {
    p50: percentile(latenciesMs, 0.5),
    p99: percentile(latenciesMs, 0.99),
    worst: Math.max(...latenciesMs),
    payerBusy: busy('payer'),
    mintsBusy: busy('mints'),
    serviceBusy: busy('service'),
    lateness: seconds / plannedSeconds - 1,
    ...updates,
    mistaken,
  };

  async function look() {
    return {
      atMs: performance.now(),
      payer: await payer.cpuMs(),
      mints: await testMints.process.cpuMs(),
      service: (await serviceProcess?.cpuMs()) ?? 0,
    };
  }
}

function toRow(share: 'p50' | 'p99', runs: readonly { ours: OurRun; floor: Run }[]): ComparedRow {
  const pairs = runs.map(({ ours, floor }) => ({
    ours: { ...ours, value: ours[share] },
    floor: { ...floor, value: floor[share] },
  }));
  const busy = (side: 'ours' | 'floor', which: 'payerBusy' | 'mintsBusy' | 'serviceBusy') =>
    percent(median(runs.map((run) => run[side][which])));
  return compare(
    {
      title: `payment to update, ${PAYMENTS_PER_SECOND} a second, ${share}`,
      unit: 'ms',
      toReach: { overFloorAtMost: OVER_FLOOR_MS[share] },
      notes:
        share === 'p50'
          ? [
              `${RECIPIENTS} recipients with a socket each, at ${MINTS} mints`,
              `busy, of a core: service ${busy('ours', 'serviceBusy')}; mints ${busy('ours', 'mintsBusy')}, ` +
                `for the floor ${busy('floor', 'mintsBusy')}; payer ${busy('ours', 'payerBusy')}, ` +
                `for the floor ${busy('floor', 'payerBusy')}`,
            ]
          : [`slowest: ${slowest('ours')} ms, floor ${slowest('floor')} ms`],
      problems: share === 'p50' ? runs.flatMap(problemsOf) : [],
    },
    pairs,
  );

  function slowest(side: 'ours' | 'floor'): string {
    return Math.max(...runs.map((run) => run[side].worst)).toFixed(1);
  }
}

function problemsOf({ ours, floor }: { ours: OurRun; floor: Run }): string[] {
  return [
    ...Object.entries({ ours, floor }).flatMap(([side, { payerBusy, mintsBusy, lateness }]) =>
      fellBehind({ busy: Math.max(payerBusy, mintsBusy), lateness })
        ? [
            `${side}: the payer or the mints were too busy or too late, and may be what was measured`,
          ]
        : [],
    ),
    ...(ours.toldTwice + ours.unread > 0
      ? [`${ours.toldTwice} updates told of a quote again, ${ours.unread} were left over`]
      : []),
    ...(ours.mistaken > 0
      ? [
          `${ours.mistaken} updates told of another quote than was paid, or of one that is not listed as paid`,
        ]
      : []),
    ...((ours.polled ?? 0) > MOST_POLLED
      ? [`${percent(ours.polled ?? 0)} of the payments were seen by a poll`]
      : []),
  ];
}
