import type { PostgresPool as KyselyPool, PostgresPoolClient } from 'kysely';
import pg from 'pg';
import { computeBackoffMs } from '../backoff.ts';
import { DatabaseUnavailableError } from '../errors.ts';
import { CONNECT_TIMEOUT_MS, MAX_PREPARED_STATEMENTS, RECONNECT_BACKOFF } from './limits.ts';

interface PostgresPoolOptions {
  /** Called for each new connection. Rejects if the connection must not be used. */
  checkConnection: (client: pg.PoolClient) => Promise<void>;
  reportError: (error: Error) => void;
  /** False behind a pooler that shares connections, because PgBouncer before 1.21 cannot prepare statements there. */
  shouldPrepare: boolean;
}

/** The time from a failure of the server until a new connection works. */
interface Recovery {
  startedAtMs: number;
  lastError: Error;
}

/**
 * A pool that survives the failover of its server (ADR 39). After a failure, all earlier connections are stale, because
 * they lead to the failed server. The pool opens one connection at a time until one works, while queries wait. It never
 * repeats a query.
 */
export class PostgresPool implements KyselyPool {
  /** Required by Kysely's interface. */
  readonly options = {};
  readonly #pool: pg.Pool;
  readonly #options: PostgresPoolOptions;
  readonly #statementNames = new Map<string, string>();
  /** Incremented at each failure. Connections of earlier generations are stale. */
  #generation = 0;
  /** The generations of the connections that have passed `checkConnection`. */
  readonly #generations = new WeakMap<pg.PoolClient, number>();
  #recovery: Recovery | null = null;
  #waitingCount = 0;

  constructor(pool: pg.Pool, options: PostgresPoolOptions) {
    this.#pool = pool;
    this.#options = options;
  }

  /** False from a failure until a new connection works. True if all connections are merely busy. */
  get isReachable(): boolean {
    return this.#recovery === null;
  }

  /** Waits for a starting server, and then for a free connection. @throws DatabaseUnavailableError */
  async connect(): Promise<PostgresPoolClient> {
    // `pg.Pool` does not limit waiting queries. The request behind each of them holds about 10 KB.
    if (this.#waitingCount >= 5_000) {
      throw new DatabaseUnavailableError(new Error('too many queries wait for a connection'));
    }
    this.#waitingCount += 1;
    try {
      return this.#createQueryRunner(await this.#connectWhenReachable());
    } finally {
      this.#waitingCount -= 1;
    }
  }

  async end(): Promise<void> {
    await this.#pool.end();
  }

  /** Makes all current connections stale, because they may lead to a server that is no longer the primary. */
  retireConnections(): void {
    this.#generation += 1;
  }

  async #connectWhenReachable(): Promise<pg.PoolClient> {
    const nowMs = performance.now();
    const outageStartedAtMs = this.#recovery?.startedAtMs ?? nowMs;
    // Later queries in a long outage wait for a second only, so that they do not pile up or delay a shutdown.
    const deadlineMs = Math.max(outageStartedAtMs + CONNECT_TIMEOUT_MS, nowMs + 1_000);
    for (;;) {
      if (this.#recovery !== null) {
        await this.#waitForRecovery(this.#recovery, deadlineMs);
      }
      try {
        return await this.#takeConnection();
      } catch (cause) {
        const error = cause as Error;
        if (isBusyError(error) || this.#pool.ending) {
          this.#options.reportError(error);
          throw new DatabaseUnavailableError(error);
        }
        this.#startRecovery(error);
      }
    }
  }

  /** Takes a connection of the current generation. Closes the stale ones that it finds. */
  async #takeConnection(): Promise<pg.PoolClient> {
    for (;;) {
      const client = await this.#pool.connect();
      if (!this.#generations.has(client)) {
        // If the check were the pool's `onConnect` and rejected, the pool would wait for a vanished server to close.
        const generation = this.#generation;
        try {
          await this.#options.checkConnection(client);
        } catch (error) {
          client.release(true);
          throw error;
        }
        this.#generations.set(client, generation);
      }
      if (!this.#isStale(client)) {
        return client;
      }
      client.release(true);
    }
  }

  #isStale(client: pg.PoolClient): boolean {
    return this.#generations.get(client) !== this.#generation;
  }

  async #waitForRecovery(recovery: Recovery, deadlineMs: number): Promise<void> {
    // Polls, because a shared promise would keep each query that has given up in memory until the end of the outage.
    while (this.#recovery === recovery) {
      const remainingMs = deadlineMs - performance.now();
      if (remainingMs <= 0) {
        throw new DatabaseUnavailableError(recovery.lastError);
      }
      await new Promise((resolve) => setTimeout(resolve, Math.min(remainingMs, 50)));
    }
  }

  #startRecovery(error: Error): void {
    this.#options.reportError(error);
    if (this.#recovery === null) {
      this.#recovery = { startedAtMs: performance.now(), lastError: error };
      void this.#recover(this.#recovery);
    }
  }

  /** Opens one connection at a time until one works. The first attempt also closes all idle stale connections. */
  async #recover(recovery: Recovery): Promise<void> {
    for (let failures = 1; !this.#pool.ending; failures += 1) {
      try {
        (await this.#takeConnection()).release();
        break;
      } catch (error) {
        recovery.lastError = error as Error;
        this.#options.reportError(recovery.lastError);
        const pauseMs = computeBackoffMs(failures, RECONNECT_BACKOFF);
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
    }
    this.#recovery = null;
  }

  #createQueryRunner(client: pg.PoolClient): PostgresPoolClient {
    // The error that made the connection unusable. After a timeout, for example, the next response may belong to the
    // failed query. All later queries fail with the same error, including a rollback, because Kysely reports only the
    // rollback's error.
    let connectionError: DatabaseUnavailableError | null = null;
    const query = async (text: string, values: readonly unknown[] = []) => {
      if (connectionError !== null) {
        throw connectionError;
      }
      // Statements without values, such as `begin`, have no plan worth keeping.
      const name = values.length === 0 ? null : this.#nameStatement(text);
      try {
        const result = await client.query({ text, values: [...values], ...(name && { name }) });
        const { command, rowCount, rows } = result;
        // pg keeps results until a major garbage collection. Under load, their rows would take 150 MB.
        result.rows = [];
        return { command, rowCount, rows };
      } catch (cause) {
        const error = cause as Error;
        const failedPart = classifyError(error);
        if (failedPart === 'statement') {
          throw error;
        }
        // A failure of a stale connection shows nothing about the current server.
        if (failedPart === 'server' && !this.#isStale(client)) {
          this.#generation += 1;
          this.#startRecovery(error);
        } else {
          this.#options.reportError(error);
        }
        connectionError = new DatabaseUnavailableError(error);
        throw connectionError;
      }
    };
    return {
      query: query as PostgresPoolClient['query'],
      release: () => client.release(connectionError !== null || this.#isStale(client)),
    };
  }

  /** Returns the name under which each connection prepares the statement; null if it is not to be prepared. */
  #nameStatement(text: string): string | null {
    const names = this.#statementNames;
    const canAdd = this.#options.shouldPrepare && names.size < MAX_PREPARED_STATEMENTS;
    if (canAdd && !names.has(text)) {
      names.set(text, `nutpost_${names.size + 1}`);
    }
    return names.get(text) ?? null;
  }
}

/** Decides what has failed: the statement, this connection, or the server of all connections. */
function classifyError(error: Error): 'statement' | 'connection' | 'server' {
  if (isBusyError(error)) {
    return 'connection';
  }
  const isResponse = error instanceof pg.DatabaseError;
  const code = isResponse ? (error.code ?? '') : '';
  if (!isResponse || SERVER_FAILURE_CODE.test(code)) {
    return 'server';
  }
  return CONNECTION_FAILURE_CODE.test(code) ? 'connection' : 'statement';
}

/** Recognises the errors of `pg.Pool` and of PgBouncer for a wait in which no connection became free. */
function isBusyError(error: Error): boolean {
  return ['timeout exceeded when trying to connect', 'query_wait_timeout'].includes(error.message);
}

/**
 * The codes for a broken connection (class 08; also PgBouncer's), a read-only server (25006), a transaction that was
 * idle for too long (25P03), and a server that is stopping, has crashed, or is starting (57P01 to 57P03).
 */
const SERVER_FAILURE_CODE = /^(08...|25006|25P03|57P0[123])$/;

/** The statement timeout (57014), and a full (class 53) or broken (58030) disk or memory of the server. */
const CONNECTION_FAILURE_CODE = /^(53...|57014|58030)$/;
