import { expect, it, onTestFinished, vi } from 'vitest';
import type { ReadinessStatus } from '../../src/database/readiness.ts';
import type { WatchedQuotes } from '../../src/metrics/backlog-store.ts';
import type { MetricSources } from '../../src/metrics/gauges.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import { Scrape } from '../helpers/scrape.ts';

const OWN = 'https://mint.example';
const NOW = 1_800_000_000_000;
const SECOND = 1_000;

const READY: ReadinessStatus = {
  status: 'ready',
  checks: { database: 'ok', migrations: 'ok', listen: 'ok' },
};

it('reports the most overdue poll of each mint, and of all others together', async () => {
  const read = watching({
    overdue: [
      { mintUrl: OWN, overdueMs: 90 * SECOND },
      { mintUrl: 'https://one.example', overdueMs: 200 * SECOND },
      { mintUrl: 'https://two.example', overdueMs: 400 * SECOND },
      { mintUrl: 'https://three.example', overdueMs: 0 },
    ],
  });
  const name = 'nutpost_oldest_due_check_age_seconds';
  expect((await read()).sum(name, { mint: OWN })).toBe(90);
  expect((await read()).sum(name, { mint: 'other' })).toBe(400);
});

it('reports the failed check and that its counts are old while the database is away', async () => {
  let isAway = false;
  let monotonicMs = 0;
  const read = watching({
    quotes: [{ mintUrl: OWN, state: 'UNPAID', count: 5 }],
    isAway: () => isAway,
    monotonicMs: () => monotonicMs,
  });
  expect((await read()).sum('nutpost_backlog_fresh')).toBe(1);
  isAway = true;
  monotonicMs += 60 * SECOND;
  const scraped = await read();
  expect(scraped.sum('nutpost_ready')).toBe(0);
  expect(scraped.sum('nutpost_check_ok', { check: 'database' })).toBe(0);
  expect(scraped.sum('nutpost_check_ok', { check: 'listen' })).toBe(1);
  expect(scraped.sum('nutpost_backlog_fresh')).toBe(0);
  expect(scraped.sum('nutpost_watched_quotes', { mint: OWN })).toBe(5);
});

it('waits no longer than two seconds for a slow database, and counts once at a time', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const answer = Promise.withResolvers<void>();
  const counted = vi.fn(() => answer.promise);
  const read = watching({ quotes: [{ mintUrl: OWN, state: 'PAID', count: 7 }], counted });
  const slow = [read(), read()];
  await vi.advanceTimersByTimeAsync(2 * SECOND);
  for (const scraped of await Promise.all(slow)) {
    expect(scraped.sum('nutpost_backlog_fresh')).toBe(0);
  }
  answer.resolve();
  await vi.advanceTimersByTimeAsync(0);
  expect((await read()).sum('nutpost_watched_quotes', { mint: OWN, state: 'PAID' })).toBe(7);
  expect(counted).toHaveBeenCalledOnce();
});

/** A function that reads the metrics of a process with these values. */
function watching(known: {
  quotes?: readonly WatchedQuotes[];
  overdue?: ReturnType<MetricSources['watcher']['overdue']>;
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
  const metrics = new Metrics({ version: '1.2.3', ownMints: [OWN] });
  metrics.watch({
    readiness: { status: async () => (isAway() ? away() : READY) },
    backlog: {
      watchedQuotes: async () => {
        await counted();
        if (isAway()) {
          throw new Error('away');
        }
        return [...quotes];
      },
      outbox: async () => [],
      purchases: async () => ({ open: 0, done: 0, undone: 0, oldestOpenAtMs: null }),
    },
    processId: 'this process',
    poolUse: () => null,
    quoteSockets: { count: 0 },
    mintSockets: { count: 0 },
    watcher: { counts: { watched: 0, silent: 0 }, overdue: () => overdue },
    limiter: { status: () => [] },
    ownMints: [OWN],
    ownRelays: [],
    clock: () => NOW,
    monotonicMs,
    log: { warn: () => undefined },
  });
  return async () => new Scrape(await metrics.read());
}

function away(): ReadinessStatus {
  return {
    status: 'failing',
    checks: { database: 'failing', migrations: 'unknown', listen: 'ok' },
  };
}
