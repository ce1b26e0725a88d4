import { platform } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { FieldMintKind } from './harness/field.ts';
import type { BoundedRow, Figure } from './harness/figure.ts';
import { MintField } from './harness/mint-field.ts';
import { keepOpenQuotes, type OpenQuote, openQuotes } from './harness/open-quotes.ts';
import { startService } from './harness/servers.ts';
import { percentile, sum } from './harness/statistics.ts';
import { WatchedDatabase } from './harness/watch-database.ts';
import { ends, type Sample, WatchSampler } from './harness/watch-samples.ts';

const MINTS: Readonly<Record<FieldMintKind, number>> = { swift: 88, plain: 10, slow: 1, dead: 1 };
const KINDS = Object.keys(MINTS) as FieldMintKind[];
const QUOTES_PER_MINT = 1_000;

/** What the service has to keep to; lateness is a share of the distance between two checks. */
const MAX_RSS_MB = 300;
const MAX_CORES = 0.25;
const MAX_LATENESS = 1;

/** The window is at least this long: what is looked at once a minute has its turn. */
const SHORTEST_WINDOW_SECONDS = 60;

/** After a start every quote is polled once, which takes minutes at mints without batches. */
const SHORTEST_WARM_UP_SECONDS = 30;
const LONGEST_WARM_UP_SECONDS = 360;

/** The start is over when no quote was subscribed for so many samples. */
const QUIET_SAMPLES = 5;

/** Payments in the window: at mints that tell of them, and at mints that have to be asked. */
const PUSHED_PAYMENTS = 200;
const POLLED_PAYMENTS = 20;

/** Whoever pays does so in this time. */
const PAID_WITHIN_MS = 12 * 60 * 60_000;

/** So young, a quote is looked at often, and its payment is seen soon without a socket. */
const POLLED_WITHIN_MS = 10 * 60_000;

/** After the window: a payment that no socket told of waits for its poll. */
const LAST_PAYMENTS_MS = 120_000;

/**
 * The watcher at rest with 100,000 open quotes at 100 mints: a dead one, a slow one, and ten that
 * must be asked for one quote at a time. Nothing is asked of the service itself; payments come in at
 * the mints. It is measured once, beside what it has to reach and not beside a floor.
 */
export const watcher: Figure = {
  async measure(databases, effort) {
    await using database = await databases.create();
    const databaseUrl = database.env['DATABASE_URL'];
    if (databaseUrl === undefined || platform() !== 'linux') {
      console.error('The watcher is measured on Linux and with PostgreSQL alone: left out.');
      return [];
    }
    const seededAtMs = Date.now();
    await using field = await MintField.start({
      kinds: KINDS.flatMap((kind) => Array<FieldMintKind>(MINTS[kind]).fill(kind)),
      quotesPerMint: QUOTES_PER_MINT,
      nowMs: seededAtMs,
    });
    const quotes = field.mints.flatMap((mint) => openQuotes(mint, QUOTES_PER_MINT, seededAtMs));
    await database.prepare((db) => keepOpenQuotes(db, field.mints, quotes, seededAtMs));

    await using seen = await WatchedDatabase.open(databaseUrl);
    await using service = await startService(field.defaultMint, database);
    const sampler = new WatchSampler(service.process.pid, seen, field);
    const warmUp = await sampler.watch(
      (samples) => isWarm(samples) || ends(samples).seconds > LONGEST_WARM_UP_SECONDS,
    );
    const windowMs = Math.max(effort.seconds, SHORTEST_WINDOW_SECONDS) * 1000;
    const chosen = choosePayments(quotes);
    const [window, ...payments] = await Promise.all([
      sampler.watch((samples) => ends(samples).seconds * 1000 >= windowMs),
      ...chosen.map((quote, i) => payAfter((windowMs * i) / chosen.length, quote)),
    ]);

    const problems = isWarm(warmUp)
      ? []
      : ['not every socket was open and subscribed, or not every quote was polled'];
    problems.push(...(await findMistakes(field, seen, quotes, payments)));
    return toRows({ warmUp, window, payments, problems });

    async function payAfter(delayMs: number, quote: OpenQuote): Promise<Payment> {
      await delay(delayMs, undefined, { ref: false });
      const paidAt = performance.now();
      await field.pay(quote.mint, quote.number);
      const toldAt = await Promise.race([
        seen.toldOf(quote.quoteId),
        delay(windowMs - delayMs + LAST_PAYMENTS_MS, null, { ref: false }),
      ]);
      return { quote, tookMs: toldAt === null ? null : toldAt - paidAt };
    }
  },
};

/** A payment at a mint. */
interface Payment {
  quote: OpenQuote;
  /** Until it was recorded and told; null: it was not. */
  tookMs: number | null;
}

interface Measured {
  warmUp: readonly Sample[];
  window: readonly Sample[];
  payments: readonly Payment[];
  problems: string[];
}

/** Whether all sockets are open and subscribed, and every quote was polled once. */
function isWarm(samples: readonly Sample[]): boolean {
  const { last, seconds } = ends(samples);
  const earlier = samples.at(-1 - QUIET_SAMPLES);
  return (
    seconds >= SHORTEST_WARM_UP_SECONDS &&
    last.mints.swift.openSockets >= MINTS.swift &&
    last.mints.plain.reads >= MINTS.plain * QUOTES_PER_MINT &&
    last.mints.swift.subscriptions === earlier?.mints.swift.subscriptions
  );
}

/** Unpaid quotes that somebody may pay yet, of as many mints as possible, in any order. */
function choosePayments(quotes: readonly OpenQuote[]): OpenQuote[] {
  const nowMs = Date.now();
  const payable = (kind: FieldMintKind, withinMs: number) =>
    quotes.filter(
      ({ mint, paidAtMs, createdAtMs, expiresAtMs }) =>
        mint.kind === kind &&
        paidAtMs === null &&
        nowMs - createdAtMs < withinMs &&
        nowMs < expiresAtMs,
    );
  const chosen = [
    ...spread(payable('swift', PAID_WITHIN_MS), PUSHED_PAYMENTS),
    ...spread(payable('plain', POLLED_WITHIN_MS), POLLED_PAYMENTS),
  ];
  return chosen
    .map((quote) => ({ quote, place: Math.random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ quote }) => quote);
}

/** So many of some things, at even distances. */
function spread<T>(things: readonly T[], count: number): T[] {
  return Array.from({ length: Math.min(count, things.length) }, (_, i) => {
    return things[Math.floor((i * things.length) / count)] as T;
  });
}

/** What the service did and must not do, or the other way round. */
async function findMistakes(
  field: MintField,
  seen: WatchedDatabase,
  quotes: readonly OpenQuote[],
  payments: readonly Payment[],
): Promise<string[]> {
  const counts = await field.counts();
  const refused = sum(KINDS.map((kind) => counts[kind].mistakes));
  const unseen = payments.filter(({ tookMs }) => tookMs === null).length;
  const paid = [
    ...quotes.filter(({ paidAtMs }) => paidAtMs !== null),
    ...payments.map(({ quote }) => quote),
  ];
  const wrong = await seen.countWrong(paid.map(({ quoteId }) => quoteId));
  return [
    ...(refused > 0 ? [`${refused} requests that no mint takes`] : []),
    ...(unseen > 0 ? [`${unseen} of ${payments.length} payments were not seen`] : []),
    ...(wrong > 0 ? [`${wrong} quotes are not as at their mint, or not watched any longer`] : []),
    ...(counts.slow.batched === 0 ? ['the slow mint was not asked'] : []),
  ];
}

function toRows(measured: Measured): BoundedRow[] {
  return [
    memoryRow(measured),
    cpuRow(measured),
    latenessRow(measured),
    paymentRow('seen by a socket', 'swift', measured),
    paymentRow('seen by polling', 'plain', measured),
  ];
}

/** The problems are of all rows, and told once. */
function memoryRow({ warmUp, window, problems }: Measured): BoundedRow {
  const { last } = ends(window);
  const rssMb = window.map(({ service }) => service.rssMb);
  return {
    title: titled('most memory (RSS)'),
    ours: last.service.peakRssMb,
    spread: null,
    atMost: MAX_RSS_MB,
    unit: 'MB',
    notes: [
      `in the window up to ${Math.round(Math.max(...rssMb))} MB, ` +
        `in the end ${Math.round(last.service.rssMb)} MB`,
    ],
    problems,
    run: { rssMb: [...warmUp, ...window].map(({ service }) => service.rssMb) },
  };
}

function cpuRow({ warmUp, window }: Measured): BoundedRow {
  const { first, last, seconds } = ends(window);
  const cores = (last.service.cpuMs - first.service.cpuMs) / 1000 / seconds;
  const databaseCores = (last.databaseCpuMs - first.databaseCpuMs) / 1000 / seconds;
  const start = ends(warmUp);
  const perSecond = (kind: FieldMintKind, what: 'batches' | 'batched' | 'reads') =>
    ((last.mints[kind][what] - first.mints[kind][what]) / seconds).toFixed(1);
  return {
    title: titled('CPU'),
    ours: cores,
    spread: null,
    atMost: MAX_CORES,
    unit: 'cores',
    notes: [
      `database ${databaseCores.toFixed(2)} cores; to start took ` +
        `${(start.last.service.cpuMs / 1000).toFixed(1)} s of CPU in ${Math.round(start.seconds)} s`,
      `a second, in all: ${perSecond('swift', 'batches')} batches about ` +
        `${perSecond('swift', 'batched')} quotes, ${perSecond('plain', 'reads')} single reads`,
    ],
    problems: [],
    run: { seconds, cores, databaseCores, before: first.mints, after: last.mints },
  };
}

function latenessRow({ warmUp, window }: Measured): BoundedRow {
  const all = window.flatMap(({ mints }) => [...mints.swift.lateness, ...mints.plain.lateness]);
  const mostOverdue = (samples: readonly Sample[], kind: 'swift' | 'plain') =>
    Math.max(...samples.map(({ mints }) => countOverdue(mints[kind].lateness)));
  return {
    title: titled('latest check'),
    ours: latestOf(all),
    spread: null,
    atMost: MAX_LATENESS,
    unit: 'x',
    notes: [
      `of the distance planned; 99 % of what was due: ${percentile([0, ...all], 0.99).toFixed(2)} x`,
      `too late at a time: ${mostOverdue(window, 'swift')} at mints with batches, ` +
        `${mostOverdue(window, 'plain')} at those without; ` +
        `${mostOverdue(warmUp, 'swift')} and ${mostOverdue(warmUp, 'plain')} while starting`,
    ],
    problems: [],
    run: { warmUp: warmUp.map(latenessOf), window: window.map(latenessOf) },
  };
}

function paymentRow(how: string, kind: FieldMintKind, { payments }: Measured): BoundedRow {
  const tookMs = payments.flatMap((payment) =>
    payment.quote.mint.kind === kind && payment.tookMs !== null ? [payment.tookMs] : [],
  );
  const share = (of: number) => (tookMs.length === 0 ? Number.NaN : percentile(tookMs, of));
  return {
    title: titled(`payment ${how}, p50`),
    ours: share(0.5),
    spread: null,
    atMost: null,
    unit: 'ms',
    notes: [`${tookMs.length} payments, p99 ${share(0.99).toFixed(1)} ms`],
    problems: [],
    run: { tookMs },
  };
}

function titled(figure: string): string {
  const mints = sum(Object.values(MINTS));
  return `watcher, ${(mints * QUOTES_PER_MINT).toLocaleString('en')} open quotes: ${figure}`;
}

/** Later than twice the planned distance. */
function countOverdue(lateness: readonly number[]): number {
  return lateness.filter((each) => each > MAX_LATENESS).length;
}

/** There may be too many for the arguments of one call. */
function latestOf(lateness: readonly number[]): number {
  return lateness.reduce((latest, each) => Math.max(latest, each), 0);
}

function latenessOf({ seconds, mints }: Sample) {
  const summary = (all: readonly number[]) => ({
    due: all.length,
    overdue: countOverdue(all),
    latest: latestOf(all),
  });
  return { seconds, swift: summary(mints.swift.lateness), plain: summary(mints.plain.lateness) };
}
