import { sql } from 'kysely';
import { MAX_PAGE_SIZE } from '../src/domain/limits.ts';
import type { Database } from '../src/store/database.ts';
import { compare, type Pair } from './harness/compare.ts';
import type { ComparedRow, Figure } from './harness/figure.ts';
import { NodeProcess } from './harness/node-process.ts';
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

/** One statement keeps no more: the service's own timeout ends what takes half a minute. */
const QUOTES_AT_ONCE = 50_000;

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
    await small.prepare((db) => addUsers(db, 0, WHALES, PAYMENTS_OF_OTHERS));

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
    const ofSmall = toPage('first of a small table', atSmall, headers, PAYMENTS_OF_OTHERS, 0);
    return [
      toPage('deep', atLarge, headers, PAYMENTS_OF_A_WHALE, DEEP_OFFSET),
      ofSmall,
      toPage('first', atLarge, headers, PAYMENTS_OF_A_WHALE, 0),
      ofSmall,
    ];
  });
  return (await Promise.all(ofEach)).flat();
}

/** The last payment of a page has its number as its amount; below it is how many there are. */
function toPage(
  kind: Kind,
  { url }: BenchServer,
  headers: Page['headers'],
  total: number,
  offset: number,
): Page {
  const last = total - offset - MAX_PAGE_SIZE + 1;
  const metadata = { total, limit: MAX_PAGE_SIZE, ...(offset > 0 && { offset }) };
  return {
    kind,
    url: `${url}/api/v2/wallet/quotes?offset=${offset}`,
    headers,
    expect: `"amount":${last},"state":"ISSUED","locked":false}]},"metadata":${JSON.stringify(metadata)}}`,
  };
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
  await addUsers(db, 0, WHALES, PAYMENTS_OF_A_WHALE);
  const others = Math.ceil((quotes - WHALES * PAYMENTS_OF_A_WHALE) / PAYMENTS_OF_OTHERS);
  await addUsers(db, WHALES, others, PAYMENTS_OF_OTHERS);
}

/** Users with the same number of payments, which lie in the table as they come in: by turns. */
async function addUsers(
  db: Database['db'],
  first: number,
  users: number,
  payments: number,
): Promise<void> {
  await sql`
    insert into users (pubkey, paid_count, last_paid_at)
    select lpad(to_hex(user_number), 64, '0'), ${payments}::bigint, now()
    from generate_series(${first}::int, ${first + users - 1}::int) as user_number`.execute(db);
  const total = users * payments;
  for (let start = 0; start < total; start += QUOTES_AT_ONCE) {
    const last = Math.min(start + QUOTES_AT_ONCE, total) - 1;
    await sql`
      insert into quotes (mint_url, quote_id, pubkey, request, amount_sat, state, locked,
                          created_at, expires_at, paid_at, paid_seq)
      select 'https://mint.example',
             lpad(to_hex(user_number), 12, '0') || lpad(to_hex(seq), 12, '0'),
             lpad(to_hex(user_number), 64, '0'),
             rpad('lnbc210n1', 300, md5(user_number || ' ' || seq)), seq, 'ISSUED', false,
             paid_at - interval '20 s', paid_at + interval '1 h', paid_at, seq
      from generate_series(${start}::bigint, ${last}::bigint) as number
      cross join lateral (
        select ${first}::int + number % ${users}::int as user_number,
               number / ${users}::int + 1 as seq
      ) as payment
      cross join lateral (
        select now() - (${payments}::bigint - seq) * interval '2 s' as paid_at
      ) as time`.execute(db);
  }
  await sql`analyze`.execute(db);
}
