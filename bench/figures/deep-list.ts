import { request } from 'undici';
import { createDatabase } from '../harness/database.ts';
import type { Effort, Row } from '../harness/figure.ts';
import { addPaidQuotes, quoteText, walletHeaders } from '../harness/paid-quotes.ts';
import { type Server, startService, startTestMint } from '../harness/servers.ts';
import { median, percentile } from '../harness/statistics.ts';

/** Time for a deep page divided by the time for the first page. */
const RATIO = 1.2;

const DEEP_OFFSET = 100_000;

/** A few users have this number of payments; all others have few. */
const WHALES = { first: 0, users: 4, paymentsEach: 110_000 };
const PAYMENTS_OF_OTHERS = 100;

const WARM_UP_SECONDS = 2;

/** How long each page took, in milliseconds. */
interface PageTimes {
  deep: number[];
  first: number[];
}

/** A page far back in a long list. Floor: the first page of the same list, read in turn with it. */
export async function measureDeepList(serverUrl: string, effort: Effort): Promise<Row[]> {
  const inOthers = effort.quotes - WHALES.users * WHALES.paymentsEach;
  const others = Math.max(0, Math.ceil(inOthers / PAYMENTS_OF_OTHERS));
  await using mint = await startTestMint();
  await using database = await createDatabase(serverUrl, async (db) => {
    await addPaidQuotes(db, WHALES);
    const paymentsEach = PAYMENTS_OF_OTHERS;
    await addPaidQuotes(db, { first: WHALES.users, users: others, paymentsEach });
  });
  const runs: PageTimes[] = [];
  for (let run = 0; run < effort.runs; run += 1) {
    await using service = await startService(mint.ready.url, database);
    await readPages(service, WARM_UP_SECONDS);
    runs.push(await readPages(service, effort.seconds));
  }
  const quotes = WHALES.users * WHALES.paymentsEach + others * PAYMENTS_OF_OTHERS;
  const p99Ms = (kind: keyof PageTimes) =>
    median(runs.map((run) => percentile(run[kind], 0.99))).toFixed(1);
  return [
    {
      title: `quote list at offset ${DEEP_OFFSET.toLocaleString('en')} of ${quotes.toLocaleString('en')} quotes`,
      unit: 'ms',
      runs: runs.map(({ deep, first }) => ({ nutpost: median(deep), floor: median(first) })),
      bound: { ratioAtMost: RATIO },
      notes: [`one page at a time; p99 ${p99Ms('deep')} ms, first page ${p99Ms('first')} ms`],
      problems: [],
    },
  ];
}

/** Reads both pages of every whale in turn, so that a disturbance affects both. */
async function readPages(service: Server, seconds: number): Promise<PageTimes> {
  const headers = await Promise.all(
    Array.from({ length: WHALES.users }, (_, i) => walletHeaders(i)),
  );
  const times: PageTimes = { deep: [], first: [] };
  const endsAtMs = performance.now() + seconds * 1000;
  while (performance.now() < endsAtMs) {
    for (const [user, ofUser] of headers.entries()) {
      times.deep.push(await readPage(service, user, ofUser, DEEP_OFFSET));
      times.first.push(await readPage(service, user, ofUser, 0));
    }
  }
  return times;
}

async function readPage(
  service: Server,
  user: number,
  headers: Record<string, string>,
  offset: number,
): Promise<number> {
  const startedAtMs = performance.now();
  const url = `${service.ready.url}/api/v2/wallet/quotes?offset=${offset}`;
  const response = await request(url, { headers });
  const body = await response.body.text();
  const tookMs = performance.now() - startedAtMs;
  if (!body.includes(quoteText(user, WHALES.paymentsEach - offset))) {
    throw new Error(`wrong page: ${response.statusCode} ${body}`);
  }
  return tookMs;
}
