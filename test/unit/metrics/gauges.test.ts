import { expect, it } from 'vitest';
import type { DatabaseCounts } from '../../../src/metrics/database-counts-store.ts';
import type { GaugeSources } from '../../../src/metrics/gauges.ts';
import { Metrics } from '../../../src/metrics/metrics.ts';
import { createMintPolicy } from '../../helpers/mints/mint-policy.ts';
import { MetricsScrape } from '../../helpers/service/metrics-scrape.ts';

const OPERATOR_MINT_URL = 'https://mint.example';
const MINT_POLICY = createMintPolicy(OPERATOR_MINT_URL);
const NOW_MS = 1_800_000_000_000;
const SECOND_MS = 1_000;

it('reports the delays of each operator mint, and the worst of all other mints', async () => {
  const secondsAgo = (seconds: number) => NOW_MS - seconds * SECOND_MS;
  const createDelay = (host: string, overdueSeconds: number, failingSinceMs: number | null) => ({
    mintUrl: `https://${host}`,
    overdueMs: overdueSeconds * SECOND_MS,
    failingSinceMs,
  });
  const scrape = await createScraper({
    delays: [
      createDelay('mint.example', 90, secondsAgo(80)),
      createDelay('one.example', 200, secondsAgo(300)),
      createDelay('two.example', 400, secondsAgo(30)),
      createDelay('three.example', 0, null),
    ],
    cooldowns: { 'https://one.example': 5, 'https://two.example': 8, [OPERATOR_MINT_URL]: 3 },
  })();
  for (const [metric, operatorValue, worstValue] of [
    ['nutpost_oldest_due_poll_age_seconds', 90, 400],
    ['nutpost_mint_failing_seconds', 80, 300],
    ['nutpost_mint_cooldown_seconds', 3, 8],
    ['nutpost_mint_limited', 1, 3],
  ] as const) {
    expect(scrape.sumSeries(metric, { mint: OPERATOR_MINT_URL }), metric).toBe(operatorValue);
    expect(scrape.sumSeries(metric, { mint: 'other' }), metric).toBe(worstValue);
  }
});

it('reports the failed check and the previous counts while the database is unavailable', async () => {
  let isDatabaseDown = false;
  let monotonicMs = 0;
  const scrape = createScraper({
    watchedQuotes: [{ mintUrl: OPERATOR_MINT_URL, state: 'UNPAID', count: 5, pastDeadline: 0 }],
    isDatabaseDown: () => isDatabaseDown,
    monotonicMs: () => monotonicMs,
  });
  expect((await scrape()).sumSeries('nutpost_database_counts_fresh')).toBe(1);
  isDatabaseDown = true;
  monotonicMs += 60 * SECOND_MS;
  const scrapeResult = await scrape();
  expect(scrapeResult.sumSeries('nutpost_ready')).toBe(0);
  expect(scrapeResult.sumSeries('nutpost_check_ok', { check: 'database' })).toBe(0);
  expect(scrapeResult.sumSeries('nutpost_check_ok', { check: 'listen' })).toBe(1);
  expect(scrapeResult.sumSeries('nutpost_database_counts_fresh')).toBe(0);
  expect(scrapeResult.sumSeries('nutpost_watched_quotes', { mint: OPERATOR_MINT_URL })).toBe(5);
});

function createScraper({
  watchedQuotes = [],
  delays = [],
  cooldowns = {},
  isDatabaseDown = () => false,
  monotonicMs = () => 0,
}: {
  watchedQuotes?: DatabaseCounts['watchedQuotes'];
  delays?: ReturnType<GaugeSources['watcher']['listMintStatuses']>;
  /** In seconds, by mint URL. */
  cooldowns?: Record<string, number>;
  isDatabaseDown?: () => boolean;
  monotonicMs?: () => number;
}): () => Promise<MetricsScrape> {
  const metrics = new Metrics({ version: '1.2.3', mintPolicy: MINT_POLICY });
  metrics.addGauges({
    readiness: {
      getStatus: async () => ({
        status: isDatabaseDown() ? 'failing' : 'ready',
        checks: { database: isDatabaseDown() ? 'failing' : 'ok', migrations: 'ok', listen: 'ok' },
      }),
    },
    getUntrustedProxy: () => null,
    readCounts: async () => {
      if (isDatabaseDown()) {
        throw new Error('unavailable');
      }
      const purchases = { byState: { open: 0, completed: 0, failed: 0 }, oldestOpenAtMs: null };
      return {
        watchedQuotes,
        outboxes: [],
        purchases,
        notificationsDueAtMs: null,
        backupMadeAtMs: null,
        databaseBytes: 0,
        userCount: 0,
      };
    },
    readDiskSpace: async () => null,
    poolStats: () => null,
    quoteSockets: { count: 0 },
    mintSockets: { count: 0 },
    watcher: { listMintStatuses: () => delays },
    limiter: {
      listRoutes: (mintUrl) => [
        { route: 'check', pauseMs: (cooldowns[mintUrl] ?? 0) * SECOND_MS, hasRefusedLately: true },
      ],
    },
    mintPolicy: MINT_POLICY,
    operatorRelays: [],
    clock: () => NOW_MS,
    monotonicMs,
    log: { warn: () => undefined, error: () => undefined },
  });
  return async () => new MetricsScrape(await metrics.collect());
}
