import { Gauge, type Registry } from 'prom-client';
import type { Clock } from '../clock.ts';
import type { Database } from '../database/database.ts';
import type { Readiness } from '../database/readiness.ts';
import type { QuoteState } from '../database/schema.ts';
import type { Logger } from '../log.ts';
import type { MintPolicy } from '../mints/mint-policy.ts';
import type { MintRateLimiter, MintRoute } from '../mints/mint-rate-limiter.ts';
import { waitAtMost } from '../wait-at-most.ts';
import type {
  DatabaseCounts,
  PurchaseCounts,
  RelayOutboxCount,
  WatchedQuoteCount,
} from './database-counts-store.ts';

/** The label that all mints and relays share that the operator has not configured. */
export const OTHER_LABEL = 'other';

/** Limits the cost of counting rows, even if metrics are scraped more often. */
const COUNTS_REFRESH_INTERVAL_MS = 10_000;

/** How long a scrape waits for the database. Prometheus waits 10 s for the whole scrape. */
const COUNTS_MAX_WAIT_MS = 2_000;

const WATCHED_STATES: readonly QuoteState[] = ['UNPAID', 'INFLIGHT', 'PAID'];

export interface GaugeSources {
  readiness: Pick<Readiness, 'getStatus'>;
  getUntrustedProxy: () => string | null;
  readCounts: () => Promise<DatabaseCounts>;
  /** Null with PostgreSQL, whose disk is on another machine. */
  readFreeDiskBytes: () => Promise<number | null>;
  poolStats: Database['poolStats'];
  quoteSockets: { count: number };
  mintSockets: { count: number };
  watcher: {
    mintCounts: { watched: number; unresponsive: number };
    listDelays: () => { mintUrl: string; overdueMs: number; failingSinceMs: number | null }[];
  };
  limiter: Pick<MintRateLimiter, 'listRoutes'>;
  mintPolicy: MintPolicy;
  operatorRelays: readonly string[];
  clock: Clock;
  monotonicMs: () => number;
  log: Pick<Logger, 'warn'>;
}

/**
 * Refreshes the gauges for each scrape. Each process reports only the quotes of the mints that it watches, so that
 * these numbers can be summed over all processes. The numbers of receipt deliveries, purchases and users are for the
 * whole database.
 */
export class MetricGauges {
  readonly #sources: GaugeSources;
  readonly #gauges: ReturnType<typeof createGauges>;
  #counts: DatabaseCounts | null = null;
  #areCountsFresh = false;
  #hasLoggedFailure = false;
  #pendingCountsRefresh: Promise<void> | null = null;
  #nextCountsRefreshAtMs = Number.NEGATIVE_INFINITY;

  constructor(registry: Registry, sources: GaugeSources) {
    this.#sources = sources;
    this.#gauges = createGauges(registry);
  }

  async refresh(): Promise<void> {
    const { readiness } = this.#sources;
    const [{ status, checks }] = await Promise.all([readiness.getStatus(), this.#refreshCounts()]);
    const gauges = this.#gauges;
    gauges.ready.set(Number(status === 'ready'));
    for (const [check, result] of Object.entries(checks)) {
      gauges.checkOk.set({ check }, Number(result === 'ok'));
    }
    gauges.untrustedProxy.set(Number(this.#sources.getUntrustedProxy() !== null));
    gauges.countsFresh.set(Number(this.#areCountsFresh && this.#pendingCountsRefresh === null));
    gauges.diskFree.set((await this.#sources.readFreeDiskBytes()) ?? Number.NaN);
    this.#setConnections();
    this.#setPollDelays();
    this.#setRateLimits();
    if (this.#counts !== null) {
      gauges.databaseBytes.set(this.#counts.size.bytes);
      gauges.users.set(this.#counts.size.users);
      this.#setQuotes(this.#counts.watchedQuotes);
      this.#setOutbox(this.#counts.outboxes);
      this.#setPurchases(this.#counts.purchases);
    }
  }

  async waitUntilIdle(): Promise<void> {
    await waitAtMost(COUNTS_MAX_WAIT_MS, this.#pendingCountsRefresh);
  }

  async #refreshCounts(): Promise<void> {
    const { monotonicMs } = this.#sources;
    if (this.#pendingCountsRefresh === null && monotonicMs() >= this.#nextCountsRefreshAtMs) {
      this.#pendingCountsRefresh = this.#queryCounts().finally(() => {
        this.#pendingCountsRefresh = null;
        this.#nextCountsRefreshAtMs = monotonicMs() + COUNTS_REFRESH_INTERVAL_MS;
      });
    }
    await this.waitUntilIdle();
  }

  async #queryCounts(): Promise<void> {
    const { readCounts, log } = this.#sources;
    try {
      this.#counts = await readCounts();
      this.#areCountsFresh = true;
      this.#hasLoggedFailure = false;
    } catch (error) {
      this.#areCountsFresh = false;
      if (!this.#hasLoggedFailure) {
        this.#hasLoggedFailure = true;
        log.warn(
          { event: 'metrics_refresh_failed', err: error },
          'could not refresh the metrics of the database; reporting the last values',
        );
      }
    }
  }

  #setConnections(): void {
    const { poolStats, quoteSockets, mintSockets, watcher } = this.#sources;
    const gauges = this.#gauges;
    const pool = poolStats();
    if (pool !== null) {
      gauges.pool.set({ state: 'idle' }, pool.idle);
      gauges.pool.set({ state: 'busy' }, pool.busy);
      gauges.pool.set({ state: 'not_open' }, pool.max - pool.idle - pool.busy);
    }
    gauges.poolWaiting.set(pool?.waiting ?? 0);
    gauges.quoteSockets.set(quoteSockets.count);
    gauges.mintSockets.set(mintSockets.count);
    gauges.watchedMints.set(watcher.mintCounts.watched);
    gauges.unresponsiveMints.set(watcher.mintCounts.unresponsive);
  }

  #setQuotes(counts: readonly WatchedQuoteCount[]): void {
    const { watchedQuotes } = this.#gauges;
    const { operatorMints } = this.#sources.mintPolicy;
    watchedQuotes.reset();
    for (const mint of [...operatorMints, OTHER_LABEL]) {
      for (const state of WATCHED_STATES) {
        watchedQuotes.set({ mint, state }, 0);
      }
    }
    for (const { mintUrl, state, count } of counts) {
      watchedQuotes.inc({ mint: toUrlLabel(mintUrl, operatorMints), state }, count);
    }
  }

  #setPollDelays(): void {
    const { mintPolicy, watcher, clock } = this.#sources;
    const { operatorMints } = mintPolicy;
    const nowMs = clock();
    const delays = Map.groupBy(watcher.listDelays(), ({ mintUrl }) =>
      toUrlLabel(mintUrl, operatorMints),
    );
    for (const mint of [...operatorMints, OTHER_LABEL]) {
      const mintDelays = delays.get(mint) ?? [];
      const overdueMs = mintDelays.map((delay) => delay.overdueMs);
      const failingMs = mintDelays.map(({ failingSinceMs }) => nowMs - (failingSinceMs ?? nowMs));
      this.#gauges.dueAge.set({ mint }, Math.max(0, ...overdueMs) / 1_000);
      this.#gauges.failing.set({ mint }, Math.max(0, ...failingMs) / 1_000);
    }
  }

  /** Reports the longest pause and the number of limited mints of all other mints together. */
  #setRateLimits(): void {
    const { pause, limited } = this.#gauges;
    const { mintPolicy, watcher, limiter } = this.#sources;
    pause.reset();
    limited.reset();
    const longestMs = new Map<MintRoute, number>();
    const otherMints = watcher
      .listDelays()
      .filter(({ mintUrl }) => !mintPolicy.isOperatorMint(mintUrl));
    for (const { mintUrl } of otherMints) {
      for (const { route, pauseMs, hasRefusedLately } of limiter.listRoutes(mintUrl)) {
        longestMs.set(route, Math.max(longestMs.get(route) ?? 0, pauseMs));
        limited.inc({ mint: OTHER_LABEL, route }, Number(hasRefusedLately));
      }
    }
    for (const [route, pauseMs] of longestMs) {
      pause.set({ mint: OTHER_LABEL, route }, pauseMs / 1_000);
    }
    for (const mint of mintPolicy.operatorMints) {
      for (const { route, pauseMs, hasRefusedLately } of limiter.listRoutes(mint)) {
        pause.set({ mint, route }, pauseMs / 1_000);
        limited.set({ mint, route }, Number(hasRefusedLately));
      }
    }
  }

  #setOutbox(outboxes: readonly RelayOutboxCount[]): void {
    const { outboxDeliveries, outboxAge } = this.#gauges;
    const { operatorRelays, clock } = this.#sources;
    for (const relay of [...operatorRelays, OTHER_LABEL]) {
      outboxDeliveries.set({ relay }, 0);
    }
    for (const { relayUrl, pendingDeliveries } of outboxes) {
      outboxDeliveries.inc({ relay: toUrlLabel(relayUrl, operatorRelays) }, pendingDeliveries);
    }
    const nowMs = clock();
    for (const relay of operatorRelays) {
      const dueAtMs = outboxes.find(({ relayUrl }) => relayUrl === relay)?.earliestDueAtMs;
      outboxAge.set({ relay }, Math.max(0, nowMs - (dueAtMs ?? nowMs)) / 1_000);
    }
  }

  #setPurchases({ oldestOpenCreatedAtMs, ...countsByState }: PurchaseCounts): void {
    const { purchases, purchaseAge } = this.#gauges;
    const nowMs = this.#sources.clock();
    for (const [state, count] of Object.entries(countsByState)) {
      purchases.set({ state }, count);
    }
    purchaseAge.set(Math.max(0, nowMs - (oldestOpenCreatedAtMs ?? nowMs)) / 1_000);
  }
}

export function toUrlLabel(url: string, operatorUrls: readonly string[]): string {
  return operatorUrls.includes(url) ? url : OTHER_LABEL;
}

function createGauges(registry: Registry) {
  const gauge = <Label extends string = never>(name: string, help: string, labels: Label[] = []) =>
    new Gauge<Label>({ name: `nutpost_${name}`, help, labelNames: labels, registers: [registry] });
  return {
    ready: gauge('ready', 'Whether /health/ready returns 200.'),
    checkOk: gauge('check_ok', 'The checks of /health/ready: 1 if ok.', ['check']),
    untrustedProxy: gauge(
      'untrusted_proxy',
      'Whether requests came through a reverse proxy that TRUST_PROXY does not contain.',
    ),
    countsFresh: gauge(
      'database_counts_fresh',
      'Whether the last query of the database metrics succeeded; if 0, they are outdated.',
    ),
    databaseBytes: gauge('database_bytes', 'Size of the database.'),
    diskFree: gauge('disk_free_bytes', 'Free space on the disk of DATA_DIR; NaN with PostgreSQL.'),
    users: gauge('users', 'Users in the whole database; an estimate if there are many.'),
    pool: gauge('database_pool_connections', 'Connections to the database server.', ['state']),
    poolWaiting: gauge('database_pool_waiting', 'Queries that wait for a database connection.'),
    quoteSockets: gauge('quote_sockets', 'WebSockets of wallets.'),
    mintSockets: gauge('mint_sockets', 'WebSockets to mints (NUT-17).'),
    watchedMints: gauge('watched_mints', 'Mints that this process watches.'),
    unresponsiveMints: gauge('unresponsive_mints', 'Watched mints whose last request failed.'),
    watchedQuotes: gauge(
      'watched_quotes',
      'Watched quotes of the mints that this process watches.',
      ['mint', 'state'],
    ),
    dueAge: gauge(
      'oldest_due_poll_age_seconds',
      'How long the most overdue poll of a mint is overdue.',
      ['mint'],
    ),
    failing: gauge(
      'mint_failing_seconds',
      'How long all polls of a mint have failed; for the label `other`, the longest of the mints.',
      ['mint'],
    ),
    pause: gauge(
      'mint_cooldown_seconds',
      'Seconds until the next request to a route of a mint, after a 429 or repeated failures.',
      ['mint', 'route'],
    ),
    limited: gauge(
      'mint_limited',
      'Whether a mint limits requests on a route; for the label `other`, how many mints do.',
      ['mint', 'route'],
    ),
    outboxDeliveries: gauge(
      'zap_outbox_deliveries',
      'Pending zap receipt deliveries, in the whole database.',
      ['relay'],
    ),
    outboxAge: gauge(
      'zap_outbox_overdue_seconds',
      'How long the oldest receipt for an operator relay is overdue.',
      ['relay'],
    ),
    purchases: gauge('username_purchases', 'Username purchases, in the whole database.', ['state']),
    purchaseAge: gauge(
      'username_purchase_oldest_open_age_seconds',
      'Age of the oldest open purchase.',
    ),
  };
}
