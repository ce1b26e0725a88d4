import { platform } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { generateSecretKey, getPublicKey } from 'nostr-tools';
import { compare } from './harness/compare.ts';
import type { BenchDatabase } from './harness/database.ts';
import type { Figure, Row } from './harness/figure.ts';
import { NodeProcess } from './harness/node-process.ts';
import { type ProcessUsage, processUsage } from './harness/process-usage.ts';
import { RelayField } from './harness/relay-field.ts';
import { type BenchServer, startService } from './harness/servers.ts';
import { percentile, sum } from './harness/statistics.ts';
import { TestMints } from './harness/test-mints.ts';
import { WatchedDatabase } from './harness/watch-database.ts';
import type { FloorZapsPlan, FloorZapsResult } from './processes/floor-zaps.ts';
import type { ArrivedReceipt, FieldRelayKind, RelayFieldCounts } from './processes/relay-field.ts';
import type { PaidZap, ZapPlan, ZapResult } from './processes/zappers.ts';

/** Twenty, as many as one zap request may name; three of them are dead, each in its own way. */
const RELAYS: readonly FieldRelayKind[] = [
  ...Array<FieldRelayKind>(9).fill('healthy'),
  'refusing',
  'silent',
  'mute',
  ...Array<FieldRelayKind>(8).fill('healthy'),
];
const HEALTHY = [...RELAYS.keys()].filter((relay) => RELAYS[relay] === 'healthy');

/** Popular notes: several zaps in a second go to one key. */
const RECIPIENTS = 500;

/** A flood is at many mints, so that each mint's socket tells of its payments: a poll waits its turn. */
const MINTS = 20;

/** The moderate rate, and for how long at least. */
const ZAPS_PER_SECOND = 20;
const SHORTEST_WINDOW_SECONDS = 15;

/** One by one, until the hot code is compiled and the mint's socket covers what follows. */
const WARM_UPS = 50;

/** What the service has to keep to; growth is of the heap in use, from before the flood to after it. */
const MAX_RSS_MB = 512;
const MAX_GROWTH_MB = 20;

const SAMPLE_MS = 1_000;

/** A collection of garbage stops the service for a moment: the heap is looked at less often. */
const SAMPLES_PER_HEAP = 5;

/** Without another receipt for so long, no more will come. */
const STALLED_MS = 60_000;

/** What a zap may take until it is paid: its invoice, and the turns of those before it. */
const PREPARATION_MS_PER_ZAP = 20;
const PREPARATION_MS = 30_000;

/** The floor is the faster of the two; a stalled one is killed. */
const FLOOR_MS = 300_000;

/**
 * Zaps whose receipts go to twenty relays, three of them dead: first at a moderate rate, then a flood
 * that is paid as fast as the mint takes it. It is measured once. Floor of the flood: a bare client
 * that sends the same receipts, already signed, to the same healthy relays.
 */
export const zaps: Figure = {
  async measure(databases, effort) {
    await using database = await databases.create();
    const databaseUrl = database.env['DATABASE_URL'];
    if (databaseUrl === undefined || platform() !== 'linux') {
      console.error('Zaps are measured on Linux and with PostgreSQL alone: left out.');
      return [];
    }
    const secretKey = generateSecretKey();
    await using relays = await RelayField.start({
      kinds: [...RELAYS],
      signedBy: getPublicKey(secretKey),
    });
    await using testMints = await TestMints.start({ mints: MINTS, delayMs: 0 });
    const flood = await measureService({
      mints: testMints.mints,
      relays,
      database,
      secretKey: Buffer.from(secretKey).toString('hex'),
      zaps: effort.zaps,
      steadyZaps: ZAPS_PER_SECOND * Math.max(effort.seconds, SHORTEST_WINDOW_SECONDS),
    });
    await relays.forget();
    const floor = await measureFloor({
      databaseUrl,
      relays: HEALTHY.map((relay) => relays.urls[relay] as string),
    });
    return toRows(flood, floor);
  },
};

interface Setting {
  mints: TestMints['mints'];
  relays: RelayField;
  database: BenchDatabase;
  secretKey: string;
  zaps: number;
  steadyZaps: number;
}

/** The service at a moment. */
interface Sample extends ProcessUsage {
  atMs: number;
  /** After a collection of garbage; null: not looked at. */
  heapMb: number | null;
  receipts: number[];
  /** Receipts that are written down. */
  recorded: number;
}

interface Measured {
  /** From a payment to its receipt at each healthy relay, at the moderate rate. */
  tookMs: number[];
  /** Of the flood. */
  paid: readonly PaidZap[];
  /** The last is after the flood, when all is quiet. */
  samples: readonly Sample[];
  /** From the first payment of the flood. */
  secondsToPay: number;
  secondsToRecord: number;
  secondsToAll: number;
  counts: RelayFieldCounts;
  problems: string[];
}

async function measureService(setting: Setting): Promise<Measured> {
  const { mints, relays, database } = setting;
  const recipients = mints.flatMap(({ url, payUrl }) =>
    Array.from({ length: RECIPIENTS / MINTS }, () => ({
      pubkey: getPublicKey(generateSecretKey()),
      mintUrl: url,
      payUrl,
    })),
  );
  await database.prepare(async (db) => {
    const rows = recipients.map(({ pubkey, mintUrl }) => ({ pubkey, mint_url: mintUrl }));
    await db.insertInto('users').values(rows).execute();
  });
  await using service = await startService(mints[0] as { url: string }, database, {
    ZAP_SECRET_KEY: setting.secretKey,
    ZAP_RELAYS: relays.urls.slice(0, 2).join(','),
  });
  await using seen = await WatchedDatabase.open(database.env['DATABASE_URL'] ?? '');
  const plan = {
    serviceUrl: service.url,
    // In any order, so that all mints have their share at every moment.
    recipients: recipients.toSorted((a, b) => (a.pubkey < b.pubkey ? -1 : 1)),
    relays: [...relays.urls],
  };

  const steady = await zap({
    ...plan,
    warmUps: WARM_UPS,
    zaps: setting.steadyZaps,
    perSecond: ZAPS_PER_SECOND,
  });
  const sampler = new Sampler(service, relays, seen);
  await sampler.watchUntil(steady.paid.length);
  const before = sampler.samples.length - 1;

  const flooding = zap({ ...plan, warmUps: 0, zaps: setting.zaps, perSecond: null });
  const all = steady.paid.length + setting.zaps;
  const [{ paid }] = await Promise.all([flooding, sampler.watchUntil(all)]);
  await sampler.look(true);

  const arrived = await relays.receipts();
  const counts = await relays.counts();
  const startedAtMs = Math.min(...paid.map(({ paidAtMs }) => paidAtMs));
  const samples = sampler.samples.slice(before);
  const recordedAtMs = samples.find(({ recorded }) => recorded >= all)?.atMs ?? Number.NaN;
  return {
    tookMs: latencies(steady.paid.slice(steady.warmUps), arrived),
    paid,
    samples,
    secondsToPay: (latest(paid.map(({ paidAtMs }) => paidAtMs)) - startedAtMs) / 1000,
    secondsToRecord: (recordedAtMs - startedAtMs) / 1000,
    secondsToAll: (lastArrival(paid, arrived) - startedAtMs) / 1000,
    counts,
    problems: findMistakes([...steady.paid, ...paid], arrived, counts),
  };
}

async function zap(input: ZapPlan): Promise<ZapResult> {
  const program = import.meta.resolve('./processes/zappers.ts');
  await using zappers = new NodeProcess('those who zap', program, { input });
  return await zappers.next<ZapResult>(
    PREPARATION_MS +
      (input.warmUps + input.zaps) * (PREPARATION_MS_PER_ZAP + 1000 / (input.perSecond ?? 1000)),
  );
}

async function measureFloor(input: FloorZapsPlan): Promise<FloorZapsResult> {
  const program = import.meta.resolve('./processes/floor-zaps.ts');
  await using client = new NodeProcess('the floor', program, { input });
  return await client.next<FloorZapsResult>(FLOOR_MS);
}

/** Looks once a second at the service, its relays and its database. */
class Sampler {
  readonly samples: Sample[] = [];
  readonly #service: BenchServer;
  readonly #relays: RelayField;
  readonly #database: WatchedDatabase;

  constructor(service: BenchServer, relays: RelayField, database: WatchedDatabase) {
    this.#service = service;
    this.#relays = relays;
    this.#database = database;
  }

  /** Until every healthy relay has so many receipts, or no more come; the heap is looked at then, too. */
  async watchUntil(count: number): Promise<void> {
    let newestAt = performance.now();
    for (let looks = 1; ; looks += 1) {
      const before = this.samples.at(-1);
      const { receipts, recorded } = await this.look(looks % SAMPLES_PER_HEAP === 0);
      if (receipts.join() !== before?.receipts.join() || recorded !== before.recorded) {
        newestAt = performance.now();
      }
      const isComplete = HEALTHY.every((relay) => (receipts[relay] ?? 0) >= count);
      if (isComplete || performance.now() - newestAt > STALLED_MS) {
        break;
      }
      await delay(SAMPLE_MS);
    }
    await this.look(true);
  }

  async look(withHeap: boolean): Promise<Sample> {
    const { receipts } = await this.#relays.counts();
    const recorded = await this.#database.countReceipts();
    const heapMb = withHeap ? await this.#service.process.heapMb() : null;
    const usage = await processUsage(this.#service.process.pid);
    if (usage === null) {
      throw new Error('the service has ended');
    }
    const sample = { ...usage, atMs: Date.now(), heapMb, receipts, recorded };
    this.samples.push(sample);
    return sample;
  }
}

/** From each payment to its receipt at each healthy relay that has it. */
function latencies(paid: readonly PaidZap[], arrived: readonly ArrivedReceipt[]): number[] {
  const byInvoice = new Map(arrived.map((receipt) => [receipt.invoice, receipt]));
  return paid.flatMap(({ invoice, paidAtMs }) =>
    HEALTHY.flatMap((relay) => {
      const arrivedAtMs = byInvoice.get(invoice)?.arrivedAtMs[relay] ?? null;
      return arrivedAtMs === null ? [] : [arrivedAtMs - paidAtMs];
    }),
  );
}

function lastArrival(paid: readonly PaidZap[], arrived: readonly ArrivedReceipt[]): number {
  const invoices = new Set(paid.map(({ invoice }) => invoice));
  return latest(
    arrived
      .filter(({ invoice }) => invoices.has(invoice))
      .flatMap(({ arrivedAtMs }) => HEALTHY.map((relay) => arrivedAtMs[relay] ?? 0)),
  );
}

/** There may be too many for the arguments of one call. */
function latest(timesMs: readonly number[]): number {
  return timesMs.reduce((last, each) => Math.max(last, each), 0);
}

/** What is missing at a healthy relay, or there without a payment, or wrong. */
function findMistakes(
  paid: readonly PaidZap[],
  arrived: readonly ArrivedReceipt[],
  counts: RelayFieldCounts,
): string[] {
  const expected = new Map(paid.map(({ invoice, zapRequest }) => [invoice, zapRequest]));
  const wrong = arrived.filter(({ invoice, zapRequest }) => expected.get(invoice) !== zapRequest);
  const missing = HEALTHY.map((relay) => {
    const there = new Set(
      arrived
        .filter(({ arrivedAtMs }) => arrivedAtMs[relay] !== null)
        .map(({ invoice }) => invoice),
    );
    return expected
      .keys()
      .filter((invoice) => !there.has(invoice))
      .toArray().length;
  });
  const missed = sum(missing);
  const { mistakes, firstMistake } = counts;
  return [
    ...(missed > 0
      ? [`${missed} receipts are missing, of ${missing.filter((count) => count > 0).length} relays`]
      : []),
    ...(wrong.length > 0 ? [`${wrong.length} receipts are of no zap that was paid`] : []),
    ...(arrived.length > paid.length ? [`${arrived.length} receipts for ${paid.length} zaps`] : []),
    ...(mistakes > 0
      ? [`${mistakes} messages that no relay takes, the first: ${firstMistake}`]
      : []),
    ...(counts.attemptsAtDead === 0 ? ['no dead relay was tried'] : []),
  ];
}

function toRows(measured: Measured, floor: FloorZapsResult): Row[] {
  return [
    rateRow(measured, floor),
    latencyRow(measured, 'p50', 0.5),
    latencyRow(measured, 'p99', 0.99),
    ...memoryRows(measured),
  ];
}

/** The problems are of all rows, and told once. */
function rateRow(measured: Measured, floor: FloorZapsResult): Row {
  const { paid, secondsToPay, secondsToRecord, secondsToAll, counts, problems } = measured;
  return compare(
    {
      title: titled(`${paid.length.toLocaleString('en')} at once: receipts taken`),
      unit: '/s',
      toReach: null,
      notes: [
        `all at the last healthy relay ${secondsToAll.toFixed(1)} s after the first payment; ` +
          `all paid after ${secondsToPay.toFixed(1)} s, recorded and signed after ${secondsToRecord.toFixed(1)} s`,
        `sent twice: ${counts.repeats}; sockets at the end: ${counts.openSockets}; ` +
          `attempts at dead relays: ${counts.attemptsAtDead}`,
      ],
      problems: [
        ...problems,
        ...(floor.refused > 0 ? [`floor: ${floor.refused} receipts were turned away`] : []),
      ],
    },
    [
      {
        ours: {
          value: (paid.length * HEALTHY.length) / secondsToAll,
          secondsToPay,
          secondsToRecord,
          counts,
        },
        floor: { value: floor.sent / floor.seconds, ...floor },
      },
    ],
  );
}

function latencyRow({ tookMs }: Measured, name: string, share: number): Row {
  return {
    title: titled(`${ZAPS_PER_SECOND} a second: payment to receipt, ${name}`),
    ours: tookMs.length === 0 ? Number.NaN : percentile(tookMs, share),
    spread: null,
    atMost: null,
    unit: 'ms',
    notes: [`${tookMs.length} receipts, the latest after ${latest(tookMs).toFixed(1)} ms`],
    problems: [],
    run: { tookMs: summary(tookMs) },
  };
}

function memoryRows({ samples }: Measured): Row[] {
  const first = samples[0] as Sample;
  const last = samples.at(-1) as Sample;
  const heapMb = samples.flatMap((sample) => sample.heapMb ?? []);
  const startMb = heapMb[0] ?? Number.NaN;
  const endMb = heapMb.at(-1) ?? Number.NaN;
  const rounded = (mb: number) => `${Math.round(mb)} MB`;
  return [
    {
      title: titled('most memory (RSS)'),
      ours: last.peakRssMb,
      spread: null,
      atMost: MAX_RSS_MB,
      unit: 'MB',
      notes: [`before the flood ${rounded(first.rssMb)}, after it ${rounded(last.rssMb)}`],
      problems: [],
      run: { rssMb: samples.map(({ rssMb }) => rssMb) },
    },
    {
      title: titled('heap in use, growth'),
      ours: endMb - startMb,
      spread: null,
      atMost: MAX_GROWTH_MB,
      unit: 'MB',
      notes: [
        `before ${rounded(startMb)}, most ${rounded(Math.max(...heapMb))}, after ${rounded(endMb)}, ` +
          'each after a collection of garbage',
      ],
      problems: [],
      run: { heapMb },
    },
  ];
}

function summary(tookMs: readonly number[]) {
  return tookMs.length === 0
    ? null
    : Object.fromEntries([0.01, 0.5, 0.9, 0.99, 1].map((of) => [of, percentile(tookMs, of)]));
}

function titled(figure: string): string {
  return `zaps, ${RELAYS.length} relays, ${RELAYS.length - HEALTHY.length} dead, ${figure}`;
}
