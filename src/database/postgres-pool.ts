import type { PostgresPool as KyselyPool, PostgresPoolClient } from 'kysely';
import pg from 'pg';
import { computeBackoffMs } from '../backoff.ts';
import { DatabaseUnavailableError } from '../errors.ts';
import { CONNECT_TIMEOUT_MS, MAX_PREPARED_STATEMENTS, RECONNECT_BACKOFF } from './limits.ts';

interface PostgresPoolOptions {
  checkConnection: (client: pg.PoolClient) => Promise<void>;
  reportError: (error: Error) => void;
  /** False behind a pooler that shares connections: PgBouncer before 1.21 cannot prepare statements there. */
  shouldPrepare: boolean;
}

/** The attempts to reach a server after a failure. They end when a connection works. */
interface Recovery {
  startedAtMs: number;
  lastError: Error;
}

/**
 * A pool that survives the failover of its server (ADR 39). After a failure, it uses no earlier connection, because
 * all of them lead to the same server. It opens one connection at a time until one works, while queries wait. It never
 * repeats a query.
 */
export class PostgresPool implements KyselyPool {
  /** Required by Kysely's interface. */
  readonly options = {};
  readonly #pool: pg.Pool;
  readonly #options: PostgresPoolOptions;
  readonly #statementNames = new Map<string, string>();
  /** Counts failures. A connection of an earlier generation is stale. */
  #generation = 0;
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
    // A waiting request holds about 10 KB. `pg.Pool` would not limit them.
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
    const startedAtMs = performance.now();
    const outageMs = startedAtMs - (this.#recovery?.startedAtMs ?? startedAtMs);
    // In a long outage, queries must not pile up, and a shutdown must stay quick.
    const maxWaitMs = Math.max(CONNECT_TIMEOUT_MS - outageMs, 1_000);
    for (;;) {
      if (this.#recovery !== null) {
        await this.#waitForRecovery(this.#recovery, startedAtMs + maxWaitMs);
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
        // The pool's `onConnect` could do this check, but would wait until a vanished server confirms the close.
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
    // Polls, because one promise for all queries would keep a reaction of each query that gave up in the outage.
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

  /** Opens one connection at a time. The first attempt also closes all idle stale connections. */
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
    // Set by the first error after which the connection is unusable: after a timeout, for example, the next response
    // may belong to the failed query. All later queries fail with it, including a rollback, because Kysely reports only
    // the rollback's error.
    let connectionError: DatabaseUnavailableError | null = null;
    const query = async (text: string, values: readonly unknown[] = []) => {
      if (connectionError !== null) {
        throw connectionError;
      }
      const name = values.length === 0 ? null : this.#nameStatement(text);
      try {
        const result = await client.query({ text, values: [...values], ...(name && { name }) });
        const { command, rowCount, rows } = result;
        // Minor garbage collections do not free pg's objects of finished queries. With rows, they would take 150 MB.
        result.rows = [];
        return { command, rowCount, rows };
      } catch (cause) {
        const error = cause as Error;
        const failedPart = classifyError(error);
        if (failedPart === 'statement') {
          throw error;
        }
        // A query on a stale connection may fail late. That shows nothing about the connections opened since.
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

  /** Returns the name of a prepared statement, which is the same on every connection; null if there are too many. */
  #nameStatement(text: string): string | null {
    const names = this.#statementNames;
    const canAdd = this.#options.shouldPrepare && names.size < MAX_PREPARED_STATEMENTS;
    if (canAdd && !names.has(text)) {
      names.set(text, `nutpost_${names.size + 1}`);
    }
    return names.get(text) ?? null;
  }
}

/** What is wrong: the statement, this connection, or the server of all connections. */
function classifyError(error: Error): 'statement' | 'connection' | 'server' {
  if (isBusyError(error)) {
    return 'connection';
  }
  const code = error instanceof pg.DatabaseError ? (error.code ?? '') : null;
  if (code === null || SERVER_FAILURE_CODE.test(code)) {
    return 'server';
  }
  return CONNECTION_FAILURE_CODE.test(code) ? 'connection' : 'statement';
}

/** The errors of `pg.Pool` and of PgBouncer if all connections stay in use. */
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
