import { Gauge, type Registry } from 'prom-client';
import type { Clock } from '../clock.ts';
import type { Database } from '../database/database.ts';
import type { Readiness, ReadinessStatus } from '../database/readiness.ts';
import { retryLogLevel } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { MintPolicy } from '../mints/mint-policy.ts';
import type { MintRateLimiter } from '../mints/mint-rate-limiter.ts';
import { waitAtMost } from '../wait-at-most.ts';
import type { DatabaseCounts } from './database-counts-store.ts';

/** The label of all mints and relays that the operator has not configured. */
export const OTHER_LABEL = 'other';

/** Rows are counted at most this often, even if metrics are scraped more often. */
const COUNTS_REFRESH_INTERVAL_MS = 10_000;

/** How long a scrape waits for the database. Prometheus waits 10 s for the whole scrape. */
const COUNTS_MAX_WAIT_MS = 2_000;

export interface GaugeSources extends Pick<Database, 'poolStats' | 'readDiskSpace'> {
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
  log: Pick<Logger, 'warn' | 'error'>;
}

/** Each name, which `nutpost_` precedes, with its help text and then its label names. */
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
  payments_past_collect_deadline: ['Watched quotes that the mint may refuse to issue.', 'mint'],
  oldest_due_poll_age_seconds: ['How long the most overdue poll of a mint is overdue.', 'mint'],
  mint_failing_seconds: ['How long all polls have failed; of `other`, the longest.', 'mint'],
  mint_cooldown_seconds: ['Seconds until a request, after a 429 or failures.', 'mint', 'route'],
  mint_limited: ['Whether a mint limits requests; of `other`, how many do.', 'mint', 'route'],
  zap_outbox_deliveries: ['Pending zap receipt deliveries, in the whole database.', 'relay'],
  zap_outbox_overdue_seconds: ['How long the oldest receipt of ZAP_RELAYS is overdue.', 'relay'],
  notifications_overdue_seconds: ['How long the oldest due notification has waited.'],
  backup_age_seconds: ['Time since the last `nutpost backup`; NaN if there was none.'],
  username_purchases: ['Username purchases, in the whole database.', 'state'],
  username_purchase_oldest_open_age_seconds: ['Age of the oldest open purchase.'],
} as const;

type GaugeName = keyof typeof GAUGES;

interface Sample {
  labels: Record<string, string>;
  value: number;
}

/** The metrics that are read when they are scraped. The other metrics count events. */
export class MetricGauges {
  readonly #sources: GaugeSources;
  readonly #gauges: [GaugeName, Gauge][];
  #counts: DatabaseCounts | null = null;
  #hasCountingFailed = false;
  #runningCount: Promise<void> | null = null;
  #nextCountAtMs = Number.NEGATIVE_INFINITY;

  constructor(registry: Registry, sources: GaugeSources) {
    this.#sources = sources;
    this.#gauges = Object.entries(GAUGES).map(([name, [help, ...labelNames]]) => [
      name as GaugeName,
      new Gauge({ name: `nutpost_${name}`, help, labelNames, registers: [registry] }),
    ]);
  }

  async refresh(): Promise<void> {
    const [readiness, diskSpace] = await Promise.all([
      this.#sources.readiness.getStatus(),
      this.#sources.readDiskSpace(),
      this.#refreshCounts(),
    ]);
    const values = this.#readValues(readiness, diskSpace?.freeBytes ?? null);
    for (const [name, gauge] of this.#gauges) {
      const value = values[name];
      gauge.reset();
      if (typeof value === 'number') {
        gauge.set(value);
      } else {
        // `inc` adds up the mints or relays that share the label `other`.
        for (const sampled of value) {
          gauge.inc(sampled.labels, sampled.value);
        }
      }
    }
  }

  /** Waits until no count of database rows is running, for 2 s at most. */
  async waitForCounts(): Promise<void> {
    await waitAtMost(COUNTS_MAX_WAIT_MS, this.#runningCount);
  }

  async #refreshCounts(): Promise<void> {
    const { monotonicMs } = this.#sources;
    if (this.#runningCount === null && monotonicMs() >= this.#nextCountAtMs) {
      this.#runningCount = this.#queryCounts().finally(() => {
        this.#runningCount = null;
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
        log[retryLogLevel(error)](
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
    // A count that is still running took longer than a scrape waits, so the last counts may be old.
    const isCountLate = this.#runningCount !== null;
    const areCountsFresh = counts !== null && !this.#hasCountingFailed && !isCountLate;
    const pool = poolStats();
    const nowMs = clock();
    // 0 for an unknown time, and for a time in the future.
    const secondsSince = (ms: number | null | undefined) =>
      ms == null ? 0 : Math.max(0, nowMs - ms) / 1_000;
    const toMintLabel = (mintUrl: string) => toUrlLabel(mintUrl, mintPolicy.operatorMints);
    // With zeros, a time series exists for every label before there is something to report.
    const mintLabels = [...mintPolicy.operatorMints, OTHER_LABEL];
    const zeroByMint = mintLabels.map((mint) => sample({ mint }, 0));
    const mints = watcher.listMintStatuses();
    const worstByMint = (read: (mint: (typeof mints)[number]) => number) =>
      keepLargest([
        ...zeroByMint,
        ...mints.map((mint) => sample({ mint: toMintLabel(mint.mintUrl) }, read(mint))),
      ]);
    const watchedQuotes = counts?.watchedQuotes ?? [];
    const mintUrls = new Set([...mintPolicy.operatorMints, ...mints.map(({ mintUrl }) => mintUrl)]);
    const routes = [...mintUrls].flatMap((mintUrl) =>
      limiter.listRoutes(mintUrl).map((route) => ({
        ...route,
        labels: { mint: toMintLabel(mintUrl), route: route.route },
      })),
    );
    return {
      ready: Number(status === 'ready'),
      check_ok: Object.entries(checks).map(([check, result]) =>
        sample({ check }, Number(result === 'ok')),
      ),
      untrusted_proxy: Number(getUntrustedProxy() !== null),
      database_counts_fresh: Number(areCountsFresh),
      database_bytes: counts?.databaseBytes ?? 0,
      disk_free_bytes: freeDiskBytes ?? Number.NaN,
      users: counts?.userCount ?? 0,
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
          ['UNPAID', 'INFLIGHT', 'PAID'].map((state) => sample({ mint, state }, 0)),
        ),
        ...watchedQuotes.map(({ mintUrl, state, count }) =>
          sample({ mint: toMintLabel(mintUrl), state }, count),
        ),
      ],
      payments_past_collect_deadline: [
        ...zeroByMint,
        ...watchedQuotes.map(({ mintUrl, pastDeadline }) =>
          sample({ mint: toMintLabel(mintUrl) }, pastDeadline),
        ),
      ],
      oldest_due_poll_age_seconds: worstByMint(({ overdueMs }) => overdueMs / 1_000),
      mint_failing_seconds: worstByMint(({ failingSinceMs }) => secondsSince(failingSinceMs)),
      mint_cooldown_seconds: keepLargest(
        routes.map((route) => sample(route.labels, route.pauseMs / 1_000)),
      ),
      mint_limited: routes.map((route) => sample(route.labels, Number(route.hasRefusedLately))),
      zap_outbox_deliveries: [
        ...[...operatorRelays, OTHER_LABEL].map((relay) => sample({ relay }, 0)),
        ...(counts?.outboxes ?? []).map(({ relayUrl, pendingDeliveries }) =>
          sample({ relay: toUrlLabel(relayUrl, operatorRelays) }, pendingDeliveries),
        ),
      ],
      zap_outbox_overdue_seconds: operatorRelays.map((relay) => {
        const outbox = counts?.outboxes.find(({ relayUrl }) => relayUrl === relay);
        return sample({ relay }, secondsSince(outbox?.earliestDueAtMs));
      }),
      notifications_overdue_seconds: secondsSince(counts?.notificationsDueAtMs),
      backup_age_seconds:
        counts?.backupMadeAtMs == null ? Number.NaN : secondsSince(counts.backupMadeAtMs),
      username_purchases: toStateSamples(counts?.purchases.byState ?? null),
      username_purchase_oldest_open_age_seconds: secondsSince(counts?.purchases.oldestOpenAtMs),
    };
  }
}

/** Returns the URL only if the operator has configured it, so that clients cannot create label values. */
export function toUrlLabel(url: string, operatorUrls: readonly string[]): string {
  return operatorUrls.includes(url) ? url : OTHER_LABEL;
}

function sample(labels: Sample['labels'], value: number): Sample {
  return { labels, value };
}

function toStateSamples(values: Record<string, number> | null): Sample[] {
  return Object.entries(values ?? {}).map(([state, value]) => sample({ state }, value));
}

/** Keeps the largest of the samples with the same labels, such as those of all mints labelled `other`. */
function keepLargest(samples: readonly Sample[]): Sample[] {
  const groups = Map.groupBy(samples, ({ labels }) => JSON.stringify(labels));
  return [...groups.values()].flatMap((group) =>
    group.toSorted((a, b) => b.value - a.value).slice(0, 1),
  );
}
