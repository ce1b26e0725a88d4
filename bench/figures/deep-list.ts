import { request } from 'undici';
import { createPostgresDatabase } from '../harness/database.ts';
import type { Benchmark } from '../harness/figure.ts';
import { addPaidQuotes, createWalletHeaders, expectedQuoteText } from '../harness/paid-quotes.ts';
import { type Server, startNutpost, startTestMint } from '../harness/servers.ts';
import { median, percentile } from '../harness/statistics.ts';

/** The time for the deep page must be at most the time for the first page, times this ratio. */
const MAX_RATIO = 1.2;

const DEEP_OFFSET = 100_000;

/** A few users have very many payments. */
const LARGE_USERS = { firstUser: 0, userCount: 4, paymentsPerUser: 110_000 };
const LARGE_USER_QUOTE_COUNT = LARGE_USERS.userCount * LARGE_USERS.paymentsPerUser;

/** All other users have few payments. */
const PAYMENTS_PER_SMALL_USER = 100;

const WARM_UP_SECONDS = 2;

/** Response times for the deep page and for the first page. */
interface PageTimes {
  deepMs: number[];
  firstMs: number[];
}

/** Measures the time for a deep page of a long list. The floor is the time for the first page of the same list. */
export const measureDeepList: Benchmark = async (serverUrl, options) => {
  const smallUserQuoteCount = options.quoteCount - LARGE_USER_QUOTE_COUNT;
  const smallUserCount = Math.max(0, Math.ceil(smallUserQuoteCount / PAYMENTS_PER_SMALL_USER));
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
  for (let run = 0; run < options.runCount; run += 1) {
    await using service = await startNutpost(mint.readyMessage.url, database);
    await readPages(service, WARM_UP_SECONDS);
    runs.push(await readPages(service, options.secondsPerRun));
  }
  const quoteCount = LARGE_USER_QUOTE_COUNT + smallUserCount * PAYMENTS_PER_SMALL_USER;
  const p99Ms = (page: keyof PageTimes) =>
    median(runs.map((run) => percentile(run[page], 0.99))).toFixed(1);
  return [
    {
      title: `quote list at offset ${DEEP_OFFSET.toLocaleString('en')} of ${quoteCount.toLocaleString('en')} quotes`,
      unit: 'ms',
      runs: runs.map(({ deepMs, firstMs }) => ({
        service: median(deepMs),
        floor: median(firstMs),
      })),
      bound: { maxRatio: MAX_RATIO },
      notes: [`one page at a time; p99 ${p99Ms('deepMs')} ms, first page ${p99Ms('firstMs')} ms`],
    },
  ];
};

/** Reads the two pages alternately, so that a disturbance affects both times. */
async function readPages(service: Server, seconds: number): Promise<PageTimes> {
  const headersByUser = await Promise.all(
    Array.from({ length: LARGE_USERS.userCount }, (_, user) => createWalletHeaders(user)),
  );
  const times: PageTimes = { deepMs: [], firstMs: [] };
  const endsAtMs = performance.now() + seconds * 1000;
  while (performance.now() < endsAtMs) {
    for (const [user, headers] of headersByUser.entries()) {
      times.deepMs.push(await measurePage(service, user, headers, DEEP_OFFSET));
      times.firstMs.push(await measurePage(service, user, headers, 0));
    }
  }
  return times;
}

/** Returns how long a page takes, in milliseconds. */
async function measurePage(
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
