import { request } from 'undici';
import { createPostgresDatabase } from '../harness/database.ts';
import type { BenchmarkOptions, ResultRow } from '../harness/figure.ts';
import { addPaidQuotes, createWalletHeaders, expectedQuoteText } from '../harness/paid-quotes.ts';
import { type Server, startNutpost, startTestMint } from '../harness/servers.ts';
import { median, percentile } from '../harness/statistics.ts';

/** Time for a deep page divided by the time for the first page. */
const MAX_RATIO = 1.2;

const DEEP_OFFSET = 100_000;

/** A few users with very many payments. All other users have few. */
const LARGE_USERS = { firstUser: 0, userCount: 4, paymentsPerUser: 110_000 };
const PAYMENTS_PER_SMALL_USER = 100;

const WARM_UP_SECONDS = 2;

/** Response times in milliseconds. */
interface PageTimes {
  deep: number[];
  first: number[];
}

/** Measures a deep page of a long list. Floor: the first page of the same list, read alternately. */
export async function measureDeepList(
  serverUrl: string,
  effort: BenchmarkOptions,
): Promise<ResultRow[]> {
  const smallUserQuotes = effort.quoteCount - LARGE_USERS.userCount * LARGE_USERS.paymentsPerUser;
  const smallUserCount = Math.max(0, Math.ceil(smallUserQuotes / PAYMENTS_PER_SMALL_USER));
  await using mint = await startTestMint();
  await using database = await createPostgresDatabase(serverUrl, async (db) => {
    await addPaidQuotes(db, LARGE_USERS);
    await addPaidQuotes(db, {
      firstUser: LARGE_USERS.userCount,
      userCount: smallUserCount,
      paymentsPerUser: PAYMENTS_PER_SMALL_USER,
    });
  });
  const runs: PageTimes[] = [];
  for (let run = 0; run < effort.runCount; run += 1) {
    await using service = await startNutpost(mint.readyMessage.url, database);
    await readPages(service, WARM_UP_SECONDS);
    runs.push(await readPages(service, effort.secondsPerRun));
  }
  const quotes =
    LARGE_USERS.userCount * LARGE_USERS.paymentsPerUser + smallUserCount * PAYMENTS_PER_SMALL_USER;
  const p99Ms = (kind: keyof PageTimes) =>
    median(runs.map((run) => percentile(run[kind], 0.99))).toFixed(1);
  return [
    {
      title: `quote list at offset ${DEEP_OFFSET.toLocaleString('en')} of ${quotes.toLocaleString('en')} quotes`,
      unit: 'ms',
      runs: runs.map(({ deep, first }) => ({ service: median(deep), floor: median(first) })),
      bound: { maxRatio: MAX_RATIO },
      notes: [`one page at a time; p99 ${p99Ms('deep')} ms, first page ${p99Ms('first')} ms`],
      problems: [],
    },
  ];
}

/** Reads both pages alternately, so that a disturbance affects both. */
async function readPages(service: Server, seconds: number): Promise<PageTimes> {
  const headers = await Promise.all(
    Array.from({ length: LARGE_USERS.userCount }, (_, i) => createWalletHeaders(i)),
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
  const url = `${service.readyMessage.url}/api/v2/wallet/quotes?offset=${offset}`;
  const response = await request(url, { headers });
  const body = await response.body.text();
  const tookMs = performance.now() - startedAtMs;
  if (!body.includes(expectedQuoteText(user, LARGE_USERS.paymentsPerUser - offset))) {
    throw new Error(`wrong page: ${response.statusCode} ${body}`);
  }
  return tookMs;
}
