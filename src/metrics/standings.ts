import { Gauge, type Registry } from 'prom-client';
import type { Clock } from '../domain/clock.ts';
import type { QuoteState } from '../domain/quote.ts';
import type { Log } from '../log.ts';
import type { MintRateLimiter } from '../mint/mint-rate-limiter.ts';
import type { OutboxOfRelay, PurchaseBacklog, WatchedQuotes } from '../store/backlog-store.ts';
import type { PoolUse } from '../store/server.ts';
import type { Store } from '../store/store.ts';
import type { Readiness } from '../usecases/readiness.ts';
import { MintNames } from './mint-names.ts';
import { PacedReading } from './paced-reading.ts';

/** What the metrics are read from; `service.ts` passes it in. */
export interface MetricSources {
  readiness: Pick<Readiness, 'standing'>;
  backlog: Pick<Store['backlog'], 'watchedQuotes' | 'outbox' | 'outboxOf' | 'purchases'>;
  /** Whose mints are counted. */
  processId: string;
  /** Null where there is no server to connect to. */
  poolUse: () => PoolUse | null;
  quoteSockets: { count: number };
  mintSockets: { count: number };
  watcher: {
    counts: { watched: number; silent: number };
    overdue: () => { mintUrl: string; overdueMs: number }[];
  };
  limiter: Pick<MintRateLimiter, 'status'>;
  /** Normalised urls of the mints and relays that the operator has named. */
  ownMints: readonly string[];
  ownRelays: readonly string[];
  clock: Clock;
  monotonicMs: () => number;
  log: Pick<Log, 'warn'>;
}

/** What is counted in the database. */
interface Backlog {
  quotes: WatchedQuotes[];
  outbox: number;
  ownOutboxes: OutboxOfRelay[];
  purchases: PurchaseBacklog;
}

/** The label of all relays that the operator has not named. */
const OTHER_RELAYS = 'other';

/** The states of quotes that are watched. One that is issued is not. */
const WATCHED_STATES: readonly QuoteState[] = ['UNPAID', 'INFLIGHT', 'PAID'];

/**
 * How things stand, read when somebody asks for it. What is counted in the database is read with pauses
 * ({@link PacedReading}). Of mints each process tells about those that it watches: a sum over all processes
 * is right. The outbox and purchases are everybody's: all processes tell the same.
 */
export class Standings {
  readonly #sources: MetricSources;
  readonly #names: MintNames;
  readonly #backlog: PacedReading<Backlog>;
  readonly #gauges: ReturnType<typeof createGauges>;

  constructor(registry: Registry, sources: MetricSources) {
    const { backlog, processId, ownRelays, monotonicMs, log } = sources;
    this.#sources = sources;
    this.#names = new MintNames(sources.ownMints);
    this.#gauges = createGauges(registry);
    this.#backlog = new PacedReading({
      // One after another: together they would take four connections from those who are waited for.
      read: async () => ({
        quotes: await backlog.watchedQuotes(processId),
        outbox: await backlog.outbox(),
        ownOutboxes: await backlog.outboxOf(ownRelays),
        purchases: await backlog.purchases(),
      }),
      onError: (error) =>
        log.warn({ err: error }, 'what waits in the database could not be counted for the metrics'),
      monotonicMs,
    });
  }

  /** Brings every gauge up to date. */
  async refresh(): Promise<void> {
    const [{ status, checks }, { value: backlog, isWell }] = await Promise.all([
      this.#sources.readiness.standing(),
      this.#backlog.take(),
    ]);
    // From here on nothing waits: who asks at the same time sees all of it, or all of what was before.
    const gauges = this.#gauges;
    gauges.ready.set(Number(status === 'ready'));
    for (const [check, result] of Object.entries(checks)) {
      gauges.checkOk.set({ check }, Number(result === 'ok'));
    }
    gauges.backlogFresh.set(Number(isWell));
    this.#setConnections();
    this.#nameMints(backlog?.quotes ?? []);
    this.#setDueChecks();
    this.#setRateLimits();
    if (backlog !== null) {
      this.#setQuotes(backlog.quotes);
      this.#setOutbox(backlog);
      this.#setPurchases(backlog.purchases);
    }
  }

  /** Resolves when nothing is read from the database any more, or it does not answer. */
  idle(): Promise<void> {
    return this.#backlog.idle();
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

  #nameMints(quotes: readonly WatchedQuotes[]): void {
    const counts = new Map<string, number>();
    for (const { mintUrl, count } of quotes) {
      counts.set(mintUrl, (counts.get(mintUrl) ?? 0) + count);
    }
    const busiest = [...counts].toSorted(([, one], [, other]) => other - one);
    this.#names.name(
      busiest.map(([mintUrl]) => mintUrl),
      this.#sources.clock(),
    );
  }

  #setQuotes(quotes: readonly WatchedQuotes[]): void {
    const { watchedQuotes } = this.#gauges;
    watchedQuotes.reset();
    for (const mintUrl of this.#sources.ownMints) {
      for (const state of WATCHED_STATES) {
        watchedQuotes.set({ ...this.#label(mintUrl), state }, 0);
      }
    }
    for (const { mintUrl, state, count } of quotes) {
      watchedQuotes.inc({ ...this.#label(mintUrl), state }, count);
    }
  }

  /** Of those that are counted together, the oldest. */
  #setDueChecks(): void {
    const { dueAge } = this.#gauges;
    const ages = new Map<string, number>();
    for (const { mintUrl, overdueMs } of this.#sources.watcher.overdue()) {
      const name = this.#names.of(mintUrl);
      ages.set(name, Math.max(ages.get(name) ?? 0, overdueMs));
    }
    dueAge.reset();
    for (const mint of new Set([...this.#sources.ownMints, ...ages.keys()])) {
      dueAge.set(this.#label(mint), (ages.get(mint) ?? 0) / 1_000);
    }
  }

  /** Mints that are counted together have no rate limit in common. */
  #setRateLimits(): void {
    const { rest, limit, limitUsed } = this.#gauges;
    for (const gauge of [rest, limit, limitUsed]) {
      gauge.reset();
    }
    for (const mintUrl of this.#names.all) {
      for (const status of this.#sources.limiter.status(mintUrl)) {
        const labels = { ...this.#label(mintUrl), route: status.route };
        rest.set(labels, status.restMs / 1_000);
        if (status.limit !== null) {
          limit.set(labels, status.limit.perWindow);
          limitUsed.set(labels, status.limit.used);
        }
      }
    }
  }

  #setOutbox({ outbox, ownOutboxes }: Backlog): void {
    const { outboxDeliveries, outboxAge } = this.#gauges;
    const nowMs = this.#sources.clock();
    let others = outbox;
    for (const { relay, deliveries, nextTryAtMs } of ownOutboxes) {
      others -= deliveries;
      outboxDeliveries.set({ relay }, deliveries);
      outboxAge.set({ relay }, Math.max(0, nowMs - (nextTryAtMs ?? nowMs)) / 1_000);
    }
    outboxDeliveries.set({ relay: OTHER_RELAYS }, Math.max(0, others));
  }

  #setPurchases({ open, done, undone, oldestOpenAtMs }: PurchaseBacklog): void {
    const { purchases, purchaseAge } = this.#gauges;
    const nowMs = this.#sources.clock();
    for (const [state, count] of Object.entries({ open, done, undone })) {
      purchases.set({ state }, count);
    }
    purchaseAge.set(Math.max(0, nowMs - (oldestOpenAtMs ?? nowMs)) / 1_000);
  }

  /** @param mint its url, or `other` */
  #label(mint: string): { mint: string; own: string } {
    return { mint: this.#names.of(mint), own: String(this.#names.isOwn(mint)) };
  }
}

function createGauges(registry: Registry) {
  const gauge = <Label extends string = never>(name: string, help: string, labels: Label[] = []) =>
    new Gauge<Label>({ name: `nutpost_${name}`, help, labelNames: labels, registers: [registry] });
  const ofMint: ('mint' | 'own')[] = ['mint', 'own'];
  const ofRoute: ('mint' | 'own' | 'route')[] = [...ofMint, 'route'];
  const ofState: ('mint' | 'own' | 'state')[] = [...ofMint, 'state'];
  return {
    ready: gauge('ready', 'Whether /health/ready says that this process is to be sent requests.'),
    checkOk: gauge('check_ok', 'What /health/ready looks at: 1 where it is well.', ['check']),
    backlogFresh: gauge(
      'backlog_fresh',
      'Whether the counts of the database could be read when it was last tried: 0, they are old.',
    ),
    pool: gauge('database_pool_connections', 'Connections to the database server.', ['state']),
    poolWaiting: gauge('database_pool_waiting', 'How many wait for a connection to the database.'),
    quoteSockets: gauge('quote_sockets', 'WebSockets of wallets.'),
    mintSockets: gauge('mint_sockets', 'WebSockets to mints (NUT-17).'),
    watchedMints: gauge('watched_mints', 'Mints that this process watches.'),
    silentMints: gauge('silent_mints', 'Of those, how many gave no usable answer the last time.'),
    watchedQuotes: gauge(
      'watched_quotes',
      'Quotes whose mint is asked about them, of the mints that this process watches.',
      ofState,
    ),
    dueAge: gauge(
      'oldest_due_check_age_seconds',
      'How long the most overdue quote of a mint has been waiting for a poll.',
      ofMint,
    ),
    rest: gauge(
      'mint_rest_seconds',
      'Seconds until a route of a mint may be asked again, after a 429 or repeated failures.',
      ofRoute,
    ),
    limit: gauge(
      'mint_limit_requests',
      'Requests a minute that a mint allows on a route, if a limit is known.',
      ofRoute,
    ),
    limitUsed: gauge(
      'mint_limit_used_requests',
      'Requests of that limit that are used now.',
      ofRoute,
    ),
    outboxDeliveries: gauge(
      'zap_outbox_deliveries',
      'Zap receipts that relays are still to be sent, in the whole database.',
      ['relay'],
    ),
    outboxAge: gauge(
      'zap_outbox_overdue_seconds',
      'Since when a receipt is due at a relay of the operator, whether it is tried or the relay rests.',
      ['relay'],
    ),
    purchases: gauge('username_purchases', 'Paid usernames, in the whole database.', ['state']),
    purchaseAge: gauge(
      'username_purchase_oldest_open_age_seconds',
      'How long ago the oldest purchase was begun whose end is not known yet.',
    ),
  };
}
