import { expect, it } from 'vitest';
import { Metrics } from '../../src/metrics/metrics.ts';
import { MAX_NAMED_MINTS } from '../../src/metrics/mint-names.ts';
import type { MetricSources } from '../../src/metrics/standings.ts';
import type { RouteStatus } from '../../src/mint/mint-rate-limiter.ts';
import type { WatchedQuotes } from '../../src/store/backlog-store.ts';
import type { Standing } from '../../src/usecases/readiness.ts';
import { Scrape } from '../helpers/scrape.ts';

const OWN = 'https://mint.example';
const NOW = 1_800_000_000_000;
const SECOND = 1_000;

const READY: Standing = {
  status: 'ready',
  checks: { database: 'ok', migrations: 'ok', listen: 'ok' },
};

it('names the busiest mints of strangers, and counts the quotes of all others together', async () => {
  const strangers: WatchedQuotes[] = Array.from({ length: MAX_NAMED_MINTS + 10 }, (_, index) => ({
    mintUrl: `https://mint${index}.example`,
    state: 'UNPAID',
    count: 1_000 - index,
  }));
  const read = watching({ quotes: [...strangers, { mintUrl: OWN, state: 'PAID', count: 7 }] });
  const scraped = await read();
  const name = 'nutpost_watched_quotes';
  expect(scraped.sum(name, { mint: OWN, own: 'true', state: 'PAID' })).toBe(7);
  expect(scraped.sum(name, { mint: 'https://mint0.example', own: 'false' })).toBe(1_000);
  const others = strangers.slice(MAX_NAMED_MINTS).reduce((sum, { count }) => sum + count, 0);
  expect(scraped.sum(name, { mint: 'other', own: 'false', state: 'UNPAID' })).toBe(others);
  expect(scraped.text).not.toContain(`mint${MAX_NAMED_MINTS}.example`);
});

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
  expect((await read()).sum(name, { mint: OWN, own: 'true' })).toBe(90);
  expect((await read()).sum(name, { mint: 'other', own: 'false' })).toBe(400);
});

it('reports how the routes of a mint are limited', async () => {
  const read = watching({
    routes: [
      { route: 'create', restMs: 59_000, limit: { perWindow: 20, used: 19 } },
      { route: 'check', restMs: 0, limit: null },
    ],
  });
  const scraped = await read();
  const create = { mint: OWN, own: 'true', route: 'create' };
  expect(scraped.sum('nutpost_mint_rest_seconds', create)).toBe(59);
  expect(scraped.sum('nutpost_mint_limit_requests', create)).toBe(20);
  expect(scraped.sum('nutpost_mint_limit_used_requests', create)).toBe(19);
  expect(scraped.sum('nutpost_mint_rest_seconds', { ...create, route: 'check' })).toBe(0);
  expect(scraped.text).not.toMatch(/nutpost_mint_limit.*route="check"/);
});

it('says zero of a mint of the operator that has nothing to be asked about', async () => {
  const scraped = await watching({})();
  expect(scraped.sum('nutpost_oldest_due_check_age_seconds', { mint: OWN })).toBe(0);
  expect(scraped.sum('nutpost_watched_quotes', { mint: OWN })).toBe(0);
});

it('forgets what a mint had, once nothing of it is left', async () => {
  const quotes: WatchedQuotes[] = [{ mintUrl: OWN, state: 'UNPAID', count: 5 }];
  let monotonicMs = 0;
  const read = watching({ quotes, monotonicMs: () => monotonicMs });
  expect((await read()).sum('nutpost_watched_quotes', { mint: OWN })).toBe(5);
  quotes.length = 0;
  monotonicMs += 60 * SECOND;
  expect((await read()).sum('nutpost_watched_quotes', { mint: OWN })).toBe(0);
});

it('says what fails, and that its counts are old, while the database is away', async () => {
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

/** @returns reads the metrics of a process of which this is known */
function watching(known: {
  quotes?: readonly WatchedQuotes[];
  overdue?: ReturnType<MetricSources['watcher']['overdue']>;
  routes?: RouteStatus[];
  isAway?: () => boolean;
  monotonicMs?: () => number;
}): () => Promise<Scrape> {
  const {
    quotes = [],
    overdue = [],
    routes = [],
    isAway = () => false,
    monotonicMs = () => 0,
  } = known;
  const metrics = new Metrics({ version: '1.2.3', ownMints: [OWN] });
  metrics.watch({
    readiness: { standing: async () => (isAway() ? away() : READY) },
    backlog: {
      watchedQuotes: async () => {
        if (isAway()) {
          throw new Error('away');
        }
        return [...quotes];
      },
      outbox: async () => 0,
      outboxOf: async () => [],
      purchases: async () => ({ open: 0, done: 0, undone: 0, oldestOpenAtMs: null }),
    },
    processId: 'this process',
    poolUse: () => null,
    quoteSockets: { count: 0 },
    mintSockets: { count: 0 },
    watcher: { counts: { watched: 0, silent: 0 }, overdue: () => overdue },
    limiter: { status: (mintUrl) => (mintUrl === OWN ? routes : []) },
    ownMints: [OWN],
    ownRelays: [],
    clock: () => NOW,
    monotonicMs,
    log: { warn: () => undefined },
  });
  return async () => new Scrape(await metrics.read());
}

function away(): Standing {
  return {
    status: 'failing',
    checks: { database: 'failing', migrations: 'unknown', listen: 'ok' },
  };
}
