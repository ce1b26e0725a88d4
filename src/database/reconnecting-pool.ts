import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { DatabaseUnavailableError } from '../errors.ts';
import { CONNECT_TIMEOUT_MS, computeRetryDelayMs } from './postgres.ts';

/**
 * Queries wait until the server has been unreachable for {@link CONNECT_TIMEOUT_MS}. Later queries wait only this long,
 * so that they do not pile up and a shutdown stays quick.
 */
const MIN_WAIT_MS = 1_000;

/** Neither this class nor `pg.Pool` would limit the queries that wait. A waiting request holds about 10 KB. */
const MAX_WAITING = 5_000;

/**
 * The errors of `pg.Pool` and of PgBouncer if all connections stay in use. They do not mean that the server is
 * unreachable.
 */
const BUSY_MESSAGES = ['timeout exceeded when trying to connect', 'query_wait_timeout'];

export function isBusyError(error: Error): boolean {
  return BUSY_MESSAGES.includes(error.message);
}

/** Tests replace the clock and the timer. */
interface Timing {
  monotonicMs: () => number;
  delay: (ms: number, value?: undefined, options?: { signal?: AbortSignal }) => Promise<unknown>;
}

/** The attempts to reach a server after a failure. They end when a new connection works. */
interface Recovery {
  startedAtMs: number;
  /** Called with `true` at the end. */
  waiters: Set<(isReachable: true) => void>;
}

/**
 * A pool that survives the failover of its server. After a failure, it uses no earlier connection, because all of them
 * lead to the same server. It opens one connection at a time until one works, while queries wait. It never repeats a
 * query.
 */
export class ReconnectingPool {
  readonly #pool: pg.Pool;
  readonly reportError: (error: Error) => void;
  readonly #checkConnection: (client: pg.PoolClient) => Promise<void>;
  readonly #checked = new WeakSet<pg.PoolClient>();
  readonly #timing: Timing;
  /** Counts failures. */
  #generation = 0;
  /** The value of `#generation` when each connection was opened. */
  readonly #generations = new WeakMap<pg.PoolClient, number>();
  #recovery: Recovery | null = null;
  #lastError: Error | null = null;
  #waitingCount = 0;

  /**
   * @param reportError receives the error of each failure and of each attempt to connect
   * @param options.checkConnection throws if a new connection must not be used
   */
  constructor(
    pool: pg.Pool,
    reportError: (error: Error) => void,
    {
      checkConnection = async () => undefined,
      timing = { monotonicMs: () => performance.now(), delay },
    }: { checkConnection?: (client: pg.PoolClient) => Promise<void>; timing?: Timing } = {},
  ) {
    this.#pool = pool;
    this.reportError = reportError;
    this.#checkConnection = checkConnection;
    this.#timing = timing;
    pool.on('connect', (client) => this.#generations.set(client, this.#generation));
  }

  get options(): pg.PoolOptions {
    return this.#pool.options;
  }

  /** False from a failure until a new connection works. True if all connections are merely busy. */
  get isReachable(): boolean {
    return this.#recovery === null;
  }

  /** Closes all connections. */
  async end(): Promise<void> {
    await this.#pool.end();
  }

  /**
   * Takes a connection from the pool. Waits up to {@link CONNECT_TIMEOUT_MS} for a starting server, and as long again
   * for a free connection.
   *
   * @throws DatabaseUnavailableError
   */
  async connect(): Promise<pg.PoolClient> {
    if (this.#waitingCount >= MAX_WAITING) {
      throw new DatabaseUnavailableError(new Error('too many queries wait for a connection'));
    }
    this.#waitingCount += 1;
    try {
      return await this.#connectWhenReachable();
    } finally {
      this.#waitingCount -= 1;
    }
  }

  /** Stops using all current connections, because they may lead to a server that is no longer the primary. */
  replaceConnections(): void {
    this.#generation += 1;
  }

  /** Stops using all current connections, because a query on `client` has shown that the server failed. */
  reportFailure(client: pg.PoolClient, error: Error): void {
    // Other queries on the same server may fail later. They show nothing about the connections opened since.
    if (!this.isStale(client)) {
      this.#generation += 1;
      this.#startRecovery(error);
    }
  }

  /** Whether the server has failed since the connection was opened. */
  isStale(client: pg.PoolClient): boolean {
    return (this.#generations.get(client) ?? 0) !== this.#generation;
  }

  async #connectWhenReachable(): Promise<pg.PoolClient> {
    const startedAtMs = this.#timing.monotonicMs();
    for (;;) {
      if (this.#recovery !== null) {
        await this.#waitForRecovery(this.#recovery, startedAtMs);
      }
      try {
        return await this.#takeFresh();
      } catch (cause) {
        const error = cause as Error;
        if (isBusyError(error) || this.#pool.ending) {
          this.reportError(error);
          throw new DatabaseUnavailableError(error);
        }
        this.#startRecovery(error);
        if (this.#timing.monotonicMs() - startedAtMs >= CONNECT_TIMEOUT_MS) {
          throw new DatabaseUnavailableError(error);
        }
      }
    }
  }

  /** @throws DatabaseUnavailableError if the time is up */
  async #waitForRecovery(recovery: Recovery, startedAtMs: number): Promise<void> {
    const { monotonicMs, delay: wait } = this.#timing;
    const deadlineMs = Math.min(
      Math.max(recovery.startedAtMs + CONNECT_TIMEOUT_MS, startedAtMs + MIN_WAIT_MS),
      startedAtMs + CONNECT_TIMEOUT_MS,
    );
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timeout = new AbortController();
    recovery.waiters.add(resolve);
    wait(Math.max(0, deadlineMs - monotonicMs()), undefined, timeout).then(
      () => resolve(false),
      () => undefined,
    );
    const isReachable = await promise;
    recovery.waiters.delete(resolve);
    timeout.abort();
    if (!isReachable) {
      throw new DatabaseUnavailableError(this.#lastError);
    }
  }

  #startRecovery(error: Error): void {
    this.#recordError(error);
    if (this.#recovery === null) {
      this.#recovery = { startedAtMs: this.#timing.monotonicMs(), waiters: new Set() };
      void this.#recover(this.#recovery);
    }
  }

  /** Opens one connection at a time, with backoff. The first attempt also closes all idle stale connections. */
  async #recover({ waiters }: Recovery): Promise<void> {
    for (let attempt = 0; !this.#pool.ending; attempt += 1) {
      try {
        (await this.#takeFresh()).release();
        break;
      } catch (error) {
        this.#recordError(error as Error);
        await this.#timing.delay(computeRetryDelayMs(attempt));
      }
    }
    this.#recovery = null;
    for (const resolve of waiters) {
      resolve(true);
    }
  }

  /** Takes a connection that is not stale. Closes the stale ones that it finds. */
  async #takeFresh(): Promise<pg.PoolClient> {
    for (;;) {
      const client = await this.#pool.connect();
      if (this.isStale(client)) {
        client.release(true);
        continue;
      }
      if (!this.#checked.has(client)) {
        await this.#checkOrClose(client);
      }
      return client;
    }
  }

  /** Not in the pool's `onConnect`, which would wait until a server that has vanished confirms the close. */
  async #checkOrClose(client: pg.PoolClient): Promise<void> {
    try {
      await this.#checkConnection(client);
      this.#checked.add(client);
    } catch (error) {
      client.release(true);
      throw error;
    }
  }

  #recordError(error: Error): void {
    this.#lastError = error;
    this.reportError(error);
  }
}
