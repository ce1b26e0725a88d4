import { setTimeout as delay } from 'node:timers/promises';
import { Gauge, type Registry } from 'prom-client';
import type { Clock } from '../clock.ts';
import type { PoolUse } from '../database/postgres.ts';
import type { Readiness } from '../database/readiness.ts';
import type { Log } from '../log.ts';
import type { MintRateLimiter } from '../mints/mint-rate-limiter.ts';
import type { QuoteState } from '../database/schema.ts';
import type { Store } from '../store.ts';
import type { OutboxOfRelay, PurchaseBacklog, WatchedQuotes } from './backlog-store.ts';
import { OTHER } from './counters.ts';

/** Counting rows takes time, so it is done at most once in this time, however often metrics are requested. */
const COUNT_EVERY_MS = 10_000;

/** Prometheus waits 10 s for an answer by default; a database that is slow must not cost all metrics. */
const WAIT_FOR_COUNTS_MS = 2_000;

/** The states of watched quotes: an issued one is not watched. */
const WATCHED_STATES: readonly QuoteState[] = ['UNPAID', 'INFLIGHT', 'PAID'];

export interface MetricSources {
  readiness: Pick<Readiness, 'status'>;
  backlog: Pick<Store['backlog'], 'watchedQuotes' | 'outbox' | 'purchases'>;
  /** Quotes of the mints that this process watches are counted. */
  processId: string;
  /** Null with SQLite. */
  poolUse: () => PoolUse | null;
  quoteSockets: { count: number };
  mintSockets: { count: number };
  watcher: {
    counts: { watched: number; silent: number };
    overdue: () => { mintUrl: string; overdueMs: number }[];
  };
  limiter: Pick<MintRateLimiter, 'status'>;
  /** Normalised URLs of the operator's mints and relays. */
  ownMints: readonly string[];
  ownRelays: readonly string[];
  clock: Clock;
  monotonicMs: () => number;
  log: Pick<Log, 'warn'>;
}

interface Backlog {
  quotes: WatchedQuotes[];
  outbox: OutboxOfRelay[];
  purchases: PurchaseBacklog;
}

/**
 * The state of the service, read when Prometheus asks. Mints and relays that users chose share the label
 * `other`. Each process reports the mints that it watches, so the sum over all processes is right; outbox
 * and purchases are those of the whole database.
 */
export class Gauges {
  readonly #sources: MetricSources;
  readonly #gauges: ReturnType<typeof createGauges>;
  #backlog: Backlog | null = null;
  #isBacklogFresh = false;
  #counting: Promise<void> | null = null;
  #nextCountAtMs = Number.NEGATIVE_INFINITY;

  constructor(registry: Registry, sources: MetricSources) {
    this.#sources = sources;
    this.#gauges = createGauges(registry);
  }

  async refresh(): Promise<void> {
    const [{ status, checks }] = await Promise.all([
      this.#sources.readiness.status(),
      this.#count(),
    ]);
    const gauges = this.#gauges;
    gauges.ready.set(Number(status === 'ready'));
    for (const [check, result] of Object.entries(checks)) {
      gauges.checkOk.set({ check }, Number(result === 'ok'));
    }
    gauges.backlogFresh.set(Number(this.#isBacklogFresh && this.#counting === null));
    this.#setConnections();
    this.#setOverdue();
    this.#setRateLimits();
    if (this.#backlog !== null) {
      this.#setQuotes(this.#backlog.quotes);
      this.#setOutbox(this.#backlog.outbox);
      this.#setPurchases(this.#backlog.purchases);
    }
  }

  /** Resolves when nothing is being counted, or after two seconds. */
  async idle(): Promise<void> {
    await Promise.race([this.#counting, delay(WAIT_FOR_COUNTS_MS, undefined, { ref: false })]);
  }

  /** Counts again if it is time; resolves with the counts, or when they take too long. */
  async #count(): Promise<void> {
    const { monotonicMs } = this.#sources;
    if (this.#counting === null && monotonicMs() >= this.#nextCountAtMs) {
      this.#counting = this.#readBacklog().finally(() => {
        this.#counting = null;
        this.#nextCountAtMs = monotonicMs() + COUNT_EVERY_MS;
      });
    }
    await this.idle();
  }

  /** One query after the other, to use one connection. */
  async #readBacklog(): Promise<void> {
    const { backlog, processId, log } = this.#sources;
    try {
      const quotes = await backlog.watchedQuotes(processId);
      const outbox = await backlog.outbox();
      const purchases = await backlog.purchases();
      this.#backlog = { quotes, outbox, purchases };
      this.#isBacklogFresh = true;
    } catch (error) {
      this.#isBacklogFresh = false;
      log.warn(
        { event: 'metrics_not_counted', err: error },
        'could not count rows for the metrics; they show the last counts',
      );
    }
  }

  #setConnections(): void {
    const { poolUse, quoteSockets, mintSockets, watcher } = this.#sources;
    const gauges = this.#gauges;
    const pool = poolUse();
    if (pool !== null) {
      gauges.pool.set({ state: 'idle' }, pool.idle);
      gauges.pool.set({ state: 'busy' }, pool.busy);
      gauges.pool.set({ state: 'not_open' }, pool.max - pool.idle - pool.busy);
    }
    gauges.poolWaiting.set(pool?.waiting ?? 0);
    gauges.quoteSockets.set(quoteSockets.count);
    gauges.mintSockets.set(mintSockets.count);
    gauges.watchedMints.set(watcher.counts.watched);
    gauges.silentMints.set(watcher.counts.silent);
  }

  #setQuotes(quotes: readonly WatchedQuotes[]): void {
    const { watchedQuotes } = this.#gauges;
    watchedQuotes.reset();
    for (const mint of [...this.#sources.ownMints, OTHER]) {
      for (const state of WATCHED_STATES) {
        watchedQuotes.set({ mint, state }, 0);
      }
    }
    for (const { mintUrl, state, count } of quotes) {
      watchedQuotes.inc({ mint: this.#labelOf(mintUrl), state }, count);
    }
  }

  #setOverdue(): void {
    const longestMs = new Map([...this.#sources.ownMints, OTHER].map((mint) => [mint, 0]));
    for (const { mintUrl, overdueMs } of this.#sources.watcher.overdue()) {
      const mint = this.#labelOf(mintUrl);
      longestMs.set(mint, Math.max(longestMs.get(mint) ?? 0, overdueMs));
    }
    for (const [mint, overdueMs] of longestMs) {
      this.#gauges.dueAge.set({ mint }, overdueMs / 1_000);
    }
  }

  /** Of the operator's mints only: the others have no rate limit in common. */
  #setRateLimits(): void {
    const { rest, limit, limitUsed } = this.#gauges;
    for (const gauge of [rest, limit, limitUsed]) {
      gauge.reset();
    }
    for (const mint of this.#sources.ownMints) {
      for (const status of this.#sources.limiter.status(mint)) {
        const labels = { mint, route: status.route };
        rest.set(labels, status.restMs / 1_000);
        if (status.limit !== null) {
          limit.set(labels, status.limit.perWindow);
          limitUsed.set(labels, status.limit.used);
        }
      }
    }
  }

  #setOutbox(outbox: readonly OutboxOfRelay[]): void {
    const { outboxDeliveries, outboxAge } = this.#gauges;
    const { ownRelays, clock } = this.#sources;
    for (const relay of [...ownRelays, OTHER]) {
      outboxDeliveries.set({ relay }, 0);
    }
    for (const relay of ownRelays) {
      outboxAge.set({ relay }, 0);
    }
    for (const { relay, deliveries, nextTryAtMs } of outbox) {
      const isOwn = ownRelays.includes(relay);
      outboxDeliveries.inc({ relay: isOwn ? relay : OTHER }, deliveries);
      if (isOwn) {
        outboxAge.set({ relay }, Math.max(0, clock() - nextTryAtMs) / 1_000);
      }
    }
  }

  #setPurchases({ open, done, undone, oldestOpenAtMs }: PurchaseBacklog): void {
    const { purchases, purchaseAge } = this.#gauges;
    const nowMs = this.#sources.clock();
    for (const [state, count] of Object.entries({ open, done, undone })) {
      purchases.set({ state }, count);
    }
    purchaseAge.set(Math.max(0, nowMs - (oldestOpenAtMs ?? nowMs)) / 1_000);
  }

  #labelOf(mintUrl: string): string {
    return this.#sources.ownMints.includes(mintUrl) ? mintUrl : OTHER;
  }
}

function createGauges(registry: Registry) {
  const gauge = <Label extends string = never>(name: string, help: string, labels: Label[] = []) =>
    new Gauge<Label>({ name: `nutpost_${name}`, help, labelNames: labels, registers: [registry] });
  return {
    ready: gauge('ready', 'Whether /health/ready answers that this process takes requests.'),
    checkOk: gauge('check_ok', 'The checks of /health/ready: 1 if passed.', ['check']),
    backlogFresh: gauge(
      'backlog_fresh',
      'Whether rows could be counted the last time; 0: the counts are old.',
    ),
    pool: gauge('database_pool_connections', 'Connections to the database server.', ['state']),
    poolWaiting: gauge('database_pool_waiting', 'Requests that wait for a database connection.'),
    quoteSockets: gauge('quote_sockets', 'WebSockets of wallets.'),
    mintSockets: gauge('mint_sockets', 'WebSockets to mints (NUT-17).'),
    watchedMints: gauge('watched_mints', 'Mints that this process watches.'),
    silentMints: gauge('silent_mints', 'Watched mints that gave no usable answer the last time.'),
    watchedQuotes: gauge(
      'watched_quotes',
      'Watched quotes of the mints that this process watches.',
      ['mint', 'state'],
    ),
    dueAge: gauge(
      'oldest_due_check_age_seconds',
      'How long the most overdue quote of a mint has been waiting for a poll.',
      ['mint'],
    ),
    rest: gauge(
      'mint_rest_seconds',
      'Seconds until a route of a mint may be asked again, after a 429 or repeated failures.',
      ['mint', 'route'],
    ),
    limit: gauge(
      'mint_limit_requests',
      'Requests a minute that a mint allows on a route, if a limit is known.',
      ['mint', 'route'],
    ),
    limitUsed: gauge('mint_limit_used_requests', 'Requests of that limit that are used now.', [
      'mint',
      'route',
    ]),
    outboxDeliveries: gauge(
      'zap_outbox_deliveries',
      'Zap receipts that were not delivered yet, in the whole database.',
      ['relay'],
    ),
    outboxAge: gauge(
      'zap_outbox_overdue_seconds',
      'How long the oldest receipt has been due at a relay of the operator.',
      ['relay'],
    ),
    purchases: gauge('username_purchases', 'Paid usernames, in the whole database.', ['state']),
    purchaseAge: gauge(
      'username_purchase_oldest_open_age_seconds',
      'How long ago the oldest purchase began that has not ended.',
    ),
  };
}
