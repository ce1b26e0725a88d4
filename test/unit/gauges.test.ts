import { expect, it, onTestFinished, vi } from 'vitest';
import type { ReadinessStatus } from '../../src/database/readiness.ts';
import type { WatchedQuoteCount } from '../../src/metrics/backlog-store.ts';
import type { GaugeSources } from '../../src/metrics/gauges.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import { Scrape } from '../helpers/metrics-scrape.ts';

const OWN = 'https://mint.example';
const NOW = 1_800_000_000_000;
const SECOND = 1_000;

const READY: ReadinessStatus = {
  status: 'ready',
  checks: { database: 'ok', migrations: 'ok', listen: 'ok' },
};

it('reports the most overdue poll of each operator mint and of all other mints together', async () => {
  const read = watching({
    overdue: [
      { mintUrl: OWN, overdueMs: 90 * SECOND },
      { mintUrl: 'https://one.example', overdueMs: 200 * SECOND },
      { mintUrl: 'https://two.example', overdueMs: 400 * SECOND },
      { mintUrl: 'https://three.example', overdueMs: 0 },
    ],
  });
  const name = 'nutpost_oldest_due_check_age_seconds';
  expect((await read()).sumSeries(name, { mint: OWN })).toBe(90);
  expect((await read()).sumSeries(name, { mint: 'other' })).toBe(400);
});

it('reports the failed check and stale counts while the database is unavailable', async () => {
  let isAway = false;
  let monotonicMs = 0;
  const read = watching({
    quotes: [{ mintUrl: OWN, state: 'UNPAID', count: 5 }],
    isAway: () => isAway,
    monotonicMs: () => monotonicMs,
  });
  expect((await read()).sumSeries('nutpost_backlog_fresh')).toBe(1);
  isAway = true;
  monotonicMs += 60 * SECOND;
  const scraped = await read();
  expect(scraped.sumSeries('nutpost_ready')).toBe(0);
  expect(scraped.sumSeries('nutpost_check_ok', { check: 'database' })).toBe(0);
  expect(scraped.sumSeries('nutpost_check_ok', { check: 'listen' })).toBe(1);
  expect(scraped.sumSeries('nutpost_backlog_fresh')).toBe(0);
  expect(scraped.sumSeries('nutpost_watched_quotes', { mint: OWN })).toBe(5);
});

it('waits at most two seconds for a slow database and never runs two counts concurrently', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const answer = Promise.withResolvers<void>();
  const counted = vi.fn(() => answer.promise);
  const read = watching({ quotes: [{ mintUrl: OWN, state: 'PAID', count: 7 }], counted });
  const slow = [read(), read()];
  await vi.advanceTimersByTimeAsync(2 * SECOND);
  for (const scraped of await Promise.all(slow)) {
    expect(scraped.sumSeries('nutpost_backlog_fresh')).toBe(0);
  }
  answer.resolve();
  await vi.advanceTimersByTimeAsync(0);
  expect((await read()).sumSeries('nutpost_watched_quotes', { mint: OWN, state: 'PAID' })).toBe(7);
  expect(counted).toHaveBeenCalledOnce();
});

/** Returns a function that reads the metrics of a process with these values. */
function watching(known: {
  quotes?: readonly WatchedQuoteCount[];
  overdue?: ReturnType<GaugeSources['watcher']['listOverdue']>;
  isAway?: () => boolean;
  counted?: () => Promise<void>;
  monotonicMs?: () => number;
}): () => Promise<Scrape> {
  const {
    quotes = [],
    overdue = [],
    isAway = () => false,
    counted = async () => undefined,
    monotonicMs = () => 0,
  } = known;
  const metrics = new Metrics({ version: '1.2.3', operatorMints: [OWN] });
  metrics.addGauges({
    readiness: { getStatus: async () => (isAway() ? away() : READY) },
    backlog: {
      countWatchedQuotes: async () => {
        await counted();
        if (isAway()) {
          throw new Error('unavailable');
        }
        return [...quotes];
      },
      countPendingDeliveries: async () => [],
      countPurchases: async () => ({
        open: 0,
        completed: 0,
        failed: 0,
        oldestOpenCreatedAtMs: null,
      }),
    },
    processId: 'this process',
    poolStats: () => null,
    quoteSockets: { count: 0 },
    mintSockets: { count: 0 },
    watcher: { mintCounts: { watched: 0, unresponsive: 0 }, listOverdue: () => overdue },
    limiter: { getStatus: () => [] },
    operatorMints: [OWN],
    operatorRelays: [],
    clock: () => NOW,
    monotonicMs,
    log: { warn: () => undefined },
  });
  return async () => new Scrape(await metrics.collect());
}

function away(): ReadinessStatus {
  return {
    status: 'failing',
    checks: { database: 'failing', migrations: 'unknown', listen: 'ok' },
  };
}
