import { Gauge, type Registry } from 'prom-client';
import type { Clock } from '../clock.ts';
import type { Database } from '../database/database.ts';
import type { Readiness, ReadinessStatus } from '../database/readiness.ts';
import type { Logger } from '../log.ts';
import type { MintPolicy } from '../mints/mint-policy.ts';
import type { MintRateLimiter } from '../mints/mint-rate-limiter.ts';
import { waitAtMost } from '../wait-at-most.ts';
import type { DatabaseCounts } from './database-counts-store.ts';

/** The label that all mints and relays share that the operator has not configured. */
export const OTHER_LABEL = 'other';

/** Limits the cost of counting rows, even if metrics are scraped more often. */
const COUNTS_REFRESH_INTERVAL_MS = 10_000;

/** How long a scrape waits for the database. Prometheus waits 10 s for the whole scrape. */
const COUNTS_MAX_WAIT_MS = 2_000;

export interface GaugeSources extends Pick<Database, 'poolStats' | 'readFreeDiskBytes'> {
  readiness: Pick<Readiness, 'getStatus'>;
  getUntrustedProxy: () => string | null;
  readCounts: () => Promise<DatabaseCounts>;
  quoteSockets: { count: number };
  mintSockets: { count: number };
  watcher: {
    listMintStatuses: () => { mintUrl: string; overdueMs: number; failingSinceMs: number | null }[];
  };
  limiter: Pick<MintRateLimiter, 'listRoutes'>;
  mintPolicy: MintPolicy;
  operatorRelays: readonly string[];
  clock: Clock;
  monotonicMs: () => number;
  log: Pick<Logger, 'warn'>;
}

/** The names without `nutpost_`, the help texts, and the names of the labels. */
const GAUGES = {
  ready: ['Whether /health/ready returns 200.'],
  check_ok: ['The checks of /health/ready: 1 if ok.', 'check'],
  untrusted_proxy: ['Whether requests came through a proxy that TRUST_PROXY does not contain.'],
  database_counts_fresh: ['Whether the database metrics are up to date.'],
  database_bytes: ['Size of the database.'],
  disk_free_bytes: ['Free space on the disk of DATA_DIR; NaN with PostgreSQL.'],
  users: ['Users in the whole database; an estimate if there are many.'],
  database_pool_connections: ['Connections to the database server.', 'state'],
  database_pool_waiting: ['Queries that wait for a database connection.'],
  quote_sockets: ['WebSockets of wallets.'],
  mint_sockets: ['WebSockets to mints (NUT-17).'],
  watched_mints: ['Mints that this process watches.'],
  unresponsive_mints: ['Watched mints whose last request failed.'],
  watched_quotes: ['Watched quotes of the mints that this process watches.', 'mint', 'state'],
  oldest_due_poll_age_seconds: ['How long the most overdue poll of a mint is overdue.', 'mint'],
  mint_failing_seconds: ['How long all polls have failed; of `other`, the longest.', 'mint'],
  mint_cooldown_seconds: ['Seconds until a request, after a 429 or failures.', 'mint', 'route'],
  mint_limited: ['Whether a mint limits requests; of `other`, how many do.', 'mint', 'route'],
  zap_outbox_deliveries: ['Pending zap receipt deliveries, in the whole database.', 'relay'],
  zap_outbox_overdue_seconds: ['How long the oldest receipt of ZAP_RELAYS is overdue.', 'relay'],
  username_purchases: ['Username purchases, in the whole database.', 'state'],
  username_purchase_oldest_open_age_seconds: ['Age of the oldest open purchase.'],
} as const;

type GaugeName = keyof typeof GAUGES;

interface Sample {
  labels: Record<string, string>;
  value: number;
}

/** Each process reports only the quotes of the mints that it watches, so that these numbers can be summed. */
export class MetricGauges {
  readonly #sources: GaugeSources;
  readonly #gauges: [GaugeName, Gauge][];
  #counts: DatabaseCounts | null = null;
  #hasCountingFailed = false;
  #counting: Promise<void> | null = null;
  #nextCountAtMs = Number.NEGATIVE_INFINITY;

  constructor(registry: Registry, sources: GaugeSources) {
    this.#sources = sources;
    this.#gauges = Object.entries(GAUGES).map(([name, [help, ...labelNames]]) => [
      name as GaugeName,
      new Gauge({ name: `nutpost_${name}`, help, labelNames, registers: [registry] }),
    ]);
  }

  async refresh(): Promise<void> {
    const [readiness, freeDiskBytes] = await Promise.all([
      this.#sources.readiness.getStatus(),
      this.#sources.readFreeDiskBytes(),
      this.#refreshCounts(),
    ]);
    const values = this.#readValues(readiness, freeDiskBytes);
    for (const [name, gauge] of this.#gauges) {
      const value = values[name];
      gauge.reset();
      if (typeof value === 'number') {
        gauge.set(value);
      } else {
        // `inc` adds up the mints or relays that share the label `other`.
        for (const sample of value) {
          gauge.inc(sample.labels, sample.value);
        }
      }
    }
  }

  async waitForCounts(): Promise<void> {
    await waitAtMost(COUNTS_MAX_WAIT_MS, this.#counting);
  }

  async #refreshCounts(): Promise<void> {
    const { monotonicMs } = this.#sources;
    if (this.#counting === null && monotonicMs() >= this.#nextCountAtMs) {
      this.#counting = this.#queryCounts().finally(() => {
        this.#counting = null;
        this.#nextCountAtMs = monotonicMs() + COUNTS_REFRESH_INTERVAL_MS;
      });
    }
    await this.waitForCounts();
  }

  async #queryCounts(): Promise<void> {
    const { readCounts, log } = this.#sources;
    try {
      this.#counts = await readCounts();
      this.#hasCountingFailed = false;
    } catch (error) {
      if (!this.#hasCountingFailed) {
        log.warn(
          { event: 'metrics_refresh_failed', err: error },
          'could not refresh the metrics of the database; reporting the last values',
        );
      }
      this.#hasCountingFailed = true;
    }
  }

  #readValues(
    { status, checks }: ReadinessStatus,
    freeDiskBytes: number | null,
  ): Record<GaugeName, number | Sample[]> {
    const { getUntrustedProxy, poolStats, quoteSockets, mintSockets, watcher } = this.#sources;
    const { limiter, mintPolicy, operatorRelays, clock } = this.#sources;
    const counts = this.#counts;
    // If a count is still running, it took longer than a scrape waits, and the last counts may be old.
    const areCountsFresh = counts !== null && !this.#hasCountingFailed && this.#counting === null;
    const pool = poolStats();
    const nowMs = clock();
    const secondsSince = (ms: number | null | undefined) =>
      Math.max(0, nowMs - (ms ?? nowMs)) / 1_000;
    const mintLabels = [...mintPolicy.operatorMints, OTHER_LABEL];
    const noDelay = mintLabels.map((mint) => ({ labels: { mint }, value: 0 }));
    const mints = watcher.listMintStatuses().map((mint) => ({
      ...mint,
      labels: { mint: toUrlLabel(mint.mintUrl, mintPolicy.operatorMints) },
    }));
    const mintUrls = new Set([...mintPolicy.operatorMints, ...mints.map(({ mintUrl }) => mintUrl)]);
    const routes = [...mintUrls].flatMap((mintUrl) =>
      limiter.listRoutes(mintUrl).map(({ route, ...state }) => ({
        ...state,
        labels: { mint: toUrlLabel(mintUrl, mintPolicy.operatorMints), route },
      })),
    );
    return {
      ready: Number(status === 'ready'),
      check_ok: Object.entries(checks).map(([check, result]) => ({
        labels: { check },
        value: Number(result === 'ok'),
      })),
      untrusted_proxy: Number(getUntrustedProxy() !== null),
      database_counts_fresh: Number(areCountsFresh),
      database_bytes: counts?.size.bytes ?? 0,
      disk_free_bytes: freeDiskBytes ?? Number.NaN,
      users: counts?.size.users ?? 0,
      database_pool_connections: toStateSamples(
        pool && { idle: pool.idle, busy: pool.busy, not_open: pool.max - pool.idle - pool.busy },
      ),
      database_pool_waiting: pool?.waiting ?? 0,
      quote_sockets: quoteSockets.count,
      mint_sockets: mintSockets.count,
      watched_mints: mints.length,
      unresponsive_mints: mints.filter((mint) => mint.failingSinceMs !== null).length,
      watched_quotes: [
        ...mintLabels.flatMap((mint) =>
          ['UNPAID', 'INFLIGHT', 'PAID'].map((state) => ({ labels: { mint, state }, value: 0 })),
        ),
        ...(counts?.watchedQuotes ?? []).map(({ mintUrl, state, count }) => ({
          labels: { mint: toUrlLabel(mintUrl, mintPolicy.operatorMints), state },
          value: count,
        })),
      ],
      oldest_due_poll_age_seconds: keepLargest([
        ...noDelay,
        ...mints.map(({ labels, overdueMs }) => ({ labels, value: overdueMs / 1_000 })),
      ]),
      mint_failing_seconds: keepLargest([
        ...noDelay,
        ...mints.map(({ labels, failingSinceMs }) => ({
          labels,
          value: secondsSince(failingSinceMs),
        })),
      ]),
      mint_cooldown_seconds: keepLargest(
        routes.map(({ labels, pauseMs }) => ({ labels, value: pauseMs / 1_000 })),
      ),
      mint_limited: routes.map(({ labels, hasRefusedLately }) => ({
        labels,
        value: Number(hasRefusedLately),
      })),
      zap_outbox_deliveries: [
        ...[...operatorRelays, OTHER_LABEL].map((relay) => ({ labels: { relay }, value: 0 })),
        ...(counts?.outboxes ?? []).map(({ relayUrl, pendingDeliveries }) => ({
          labels: { relay: toUrlLabel(relayUrl, operatorRelays) },
          value: pendingDeliveries,
        })),
      ],
      zap_outbox_overdue_seconds: operatorRelays.map((relay) => ({
        labels: { relay },
        value: secondsSince(
          counts?.outboxes.find(({ relayUrl }) => relayUrl === relay)?.earliestDueAtMs,
        ),
      })),
      username_purchases: toStateSamples(counts?.purchases.byState ?? null),
      username_purchase_oldest_open_age_seconds: secondsSince(counts?.purchases.oldestOpenAtMs),
    };
  }
}

export function toUrlLabel(url: string, operatorUrls: readonly string[]): string {
  return operatorUrls.includes(url) ? url : OTHER_LABEL;
}

function toStateSamples(values: Record<string, number> | null): Sample[] {
  return Object.entries(values ?? {}).map(([state, value]) => ({ labels: { state }, value }));
}

function keepLargest(samples: readonly Sample[]): Sample[] {
  const groups = Map.groupBy(samples, ({ labels }) => JSON.stringify(labels));
  return [...groups.values()].flatMap((group) =>
    group.toSorted((a, b) => b.value - a.value).slice(0, 1),
  );
}
