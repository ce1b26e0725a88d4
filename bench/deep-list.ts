import type { Database } from '../src/store/database.ts';
import { compare, type Pair } from './harness/compare.ts';
import type { ComparedRow, Figure } from './harness/figure.ts';
import { NodeProcess } from './harness/node-process.ts';
import { addPaidQuotes, paidPage } from './harness/paid-quotes.ts';
import { percent } from './harness/report.ts';
import { type BenchServer, startMint, startService } from './harness/servers.ts';
import { median, percentile } from './harness/statistics.ts';
import { walletHeaders } from './harness/wallets.ts';
import type { Page, ReadingPlan, ReadingResult } from './processes/page-reader.ts';

/** To the first page, at most. */
const RATIO = 1.2;

/** What is read by a wallet that has read all else, page by page. */
const DEEP_OFFSET = 100_000;

/** A few users have so many payments; all others, here as in the small table, have few. */
const WHALES = 4;
const PAYMENTS_OF_A_WHALE = 110_000;
const PAYMENTS_OF_OTHERS = 100;

const WARM_UP_SECONDS = 2;

/** A reader that is busier than this, of a core, is what is measured as much as the service is. */
const READER_BUSY = 0.7;

/** What is read in turn. */
type Kind = 'deep' | 'first' | 'first of a small table';

/** One run. `readerBusy` is of a core. */
type Reading = ReadingResult & { readerBusy: number };

/** Of one kind, in one run. */
type Run = {
  /** Median, in milliseconds. */
  value: number;
  p99Ms: number;
  pages: number;
};

/**
 * A page far back in a long list. Floor: the first page of that list, read in turn with it. And that
 * first page, in a table with much in it; floor: the same in one with little.
 */
export const deepList: Figure = {
  async measure(databases, effort) {
    await using mint = await startMint();
    await using large = await databases.create();
    await using small = await databases.create();
    const quotes = Math.max(effort.quotes, WHALES * PAYMENTS_OF_A_WHALE);
    await large.prepare((db) => addPayments(db, quotes));
    const paid = { first: 0, users: WHALES, payments: PAYMENTS_OF_OTHERS };
    await small.prepare((db) => addPaidQuotes(db, paid));

    const readings: Reading[] = [];
    for (let run = 0; run < effort.runs; run += 1) {
      await using atLarge = await startService(mint, large);
      await using atSmall = await startService(mint, small);
      readings.push(
        await read({
          pages: await pagesInTurn(atLarge, atSmall),
          warmUpSeconds: WARM_UP_SECONDS,
          seconds: effort.seconds,
        }),
      );
    }
    const inTable = `${quotes.toLocaleString('en')} quotes in the table`;
    const deepOffset = DEEP_OFFSET.toLocaleString('en');
    return [
      toRow(`quote list at offset ${deepOffset}, ${inTable}`, readings, 'deep', 'first'),
      toRow(`quote list at offset 0, ${inTable}`, readings, 'first', 'first of a small table'),
    ];
  },
};

async function read(plan: ReadingPlan): Promise<Reading> {
  const program = import.meta.resolve('./processes/page-reader.ts');
  await using reader = new NodeProcess('the reader of pages', program, { input: plan });
  await reader.next<'warm'>(plan.warmUpSeconds * 1000);
  const cpuBeforeMs = await reader.cpuMs();
  const startedAtMs = performance.now();
  const result = await reader.next<ReadingResult>(plan.seconds * 1000);
  const tookMs = performance.now() - startedAtMs;
  return { ...result, readerBusy: ((await reader.cpuMs()) - cpuBeforeMs) / tookMs };
}

/** Pages of each kind for each whale. Both services answer as many, so that neither is more practised. */
async function pagesInTurn(atLarge: BenchServer, atSmall: BenchServer): Promise<Page[]> {
  const ofEach = Array.from({ length: WHALES }, async (_, user): Promise<Page[]> => {
    const headers = await walletHeaders(user);
    const page = (kind: Kind, { url }: BenchServer, payments: number, offset: number): Page => ({
      kind,
      url: `${url}/api/v2/wallet/quotes?offset=${offset}`,
      headers,
      expect: paidPage(user, payments, offset),
    });
    const ofSmall = page('first of a small table', atSmall, PAYMENTS_OF_OTHERS, 0);
    return [
      page('deep', atLarge, PAYMENTS_OF_A_WHALE, DEEP_OFFSET),
      ofSmall,
      page('first', atLarge, PAYMENTS_OF_A_WHALE, 0),
      ofSmall,
    ];
  });
  return (await Promise.all(ofEach)).flat();
}

function toRow(title: string, readings: readonly Reading[], ours: Kind, floor: Kind): ComparedRow {
  const runs = readings.map((reading): Pair<Run> => {
    return { ours: toRun(reading, ours), floor: toRun(reading, floor) };
  });
  const readerBusy = percent(median(readings.map((reading) => reading.readerBusy)));
  const p99Ms = (side: 'ours' | 'floor') => median(runs.map((run) => run[side].p99Ms)).toFixed(1);
  return compare(
    {
      title,
      unit: 'ms',
      toReach: { ratioAtMost: RATIO },
      notes: [
        `one at a time, in turn; p99 ${p99Ms('ours')} ms, floor ${p99Ms('floor')} ms; ` +
          `the reader is busy for ${readerBusy} of a core`,
      ],
      problems: readings.flatMap(problemsOf),
    },
    runs,
  );
}

function problemsOf({ wrong, firstWrong, readerBusy }: Reading): string[] {
  return [
    ...(wrong > 0 ? [`${wrong} wrong answers, the first: ${firstWrong}`] : []),
    ...(readerBusy > READER_BUSY
      ? ['the reader of pages was too busy, and may be what was measured']
      : []),
  ];
}

function toRun({ tookMs }: ReadingResult, kind: Kind): Run {
  const times = tookMs[kind] ?? [];
  return { value: median(times), p99Ms: percentile(times, 0.99), pages: times.length };
}

/** So many quotes of whales and of others. */
async function addPayments(db: Database['db'], quotes: number): Promise<void> {
  await addPaidQuotes(db, { first: 0, users: WHALES, payments: PAYMENTS_OF_A_WHALE });
  const others = Math.ceil((quotes - WHALES * PAYMENTS_OF_A_WHALE) / PAYMENTS_OF_OTHERS);
  await addPaidQuotes(db, { first: WHALES, users: others, payments: PAYMENTS_OF_OTHERS });
}
