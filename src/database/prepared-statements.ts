import type { PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely';
import pg from 'pg';
import { DatabaseUnavailableError } from '../errors.ts';
import { isBusyError, type ReconnectingPool } from './reconnecting-pool.ts';

/**
 * More statements than the service has. The limit protects the memory of the server, which keeps each statement until
 * its connection closes.
 */
const MAX_STATEMENTS = 300;

/** PostgreSQL's `feature_not_supported`: a migration changed the columns that a prepared statement returns. */
const RESULT_CHANGED_CODE = '0A000';

/**
 * The codes for a broken connection (class 08; also PgBouncer's), a read-only server (25006), a transaction that was
 * idle for too long (25P03), and a server that is stopping, has crashed, or is starting (57P01 to 57P03).
 */
const SERVER_FAILURE_CODE = /^(08...|25006|25P03|57P0[123])$/;

/**
 * The codes for a query that took longer than the statement timeout (57014), or that failed because the disk or the
 * memory of the server is full (class 53) or broken (58030). The connection still works.
 */
const QUERY_FAILURE_CODE = /^(53...|57014|58030)$/;

/**
 * Wraps a pool so that it prepares statements, because parsing and planning most of them takes longer than running
 * them.
 *
 * Throws {@link DatabaseUnavailableError} if the pool has no connection, the connection of a query breaks, or the
 * server is read-only, too slow, or has a full disk.
 *
 * @param shouldPrepare false behind a pooler that shares connections between transactions: PgBouncer before 1.21
 *   cannot prepare statements there
 */
export function withPreparedStatements(pool: ReconnectingPool, shouldPrepare = true): PostgresPool {
  const names = new Map<string, string>();
  const nameStatement = (text: string) => {
    if (shouldPrepare && !names.has(text) && names.size < MAX_STATEMENTS) {
      names.set(text, `nutpost_${names.size + 1}`);
    }
    return names.get(text) ?? null;
  };
  return {
    options: pool.options,
    connect: async () => new PreparedStatementConnection(await pool.connect(), pool, nameStatement),
    end: () => pool.end(),
  };
}

/** Returns the name of a statement, which is the same on every connection; null beyond {@link MAX_STATEMENTS}. */
type StatementNamer = (text: string) => string | null;

/** A pooled connection while one query or transaction uses it. */
class PreparedStatementConnection implements PostgresPoolClient {
  readonly #client: pg.PoolClient;
  readonly #pool: ReconnectingPool;
  readonly #nameStatement: StatementNamer;
  #hasStaleStatements = false;
  /**
   * After a client-side error, such as a timeout, the next response may belong to the failed query. Therefore all
   * later queries fail with this error, including a rollback, whose error is the only one that Kysely reports.
   */
  #connectionError: DatabaseUnavailableError | null = null;

  constructor(client: pg.PoolClient, pool: ReconnectingPool, nameStatement: StatementNamer) {
    this.#client = client;
    this.#pool = pool;
    this.#nameStatement = nameStatement;
  }

  query<Row>(text: string, values: readonly unknown[]): Promise<PostgresQueryResult<Row>>;
  query(cursor: never): never;
  async query(text: string, values: readonly unknown[] = []): Promise<unknown> {
    if (this.#connectionError !== null) {
      throw this.#connectionError;
    }
    const name = values.length === 0 ? null : this.#nameStatement(text);
    try {
      const result = await this.#client.query({
        text,
        values: [...values],
        ...(name !== null && { name }),
      });
      const { command, rowCount, rows } = result;
      // Minor garbage collections do not free pg's objects of finished queries. With rows, they would take 150 MB.
      result.rows = [];
      return { command, rowCount, rows };
    } catch (error) {
      if (!(error instanceof pg.DatabaseError) || SERVER_FAILURE_CODE.test(error.code ?? '')) {
        if (isBusyError(error as Error)) {
          this.#pool.reportError(error as Error);
        } else {
          this.#pool.reportFailure(this.#client, error as Error);
        }
        this.#connectionError = new DatabaseUnavailableError(error);
        throw this.#connectionError;
      }
      if (QUERY_FAILURE_CODE.test(error.code ?? '')) {
        this.#pool.reportError(error);
        throw new DatabaseUnavailableError(error);
      }
      if (error.code === RESULT_CHANGED_CODE) {
        this.#hasStaleStatements = true;
      }
      throw error;
    }
  }

  /** Returns the connection to the pool. The pool closes it if it is broken, or if it or its statements are stale. */
  release(isBroken = false): void {
    const isStale = this.#hasStaleStatements || this.#pool.isStale(this.#client);
    this.#client.release(isBroken || isStale || this.#connectionError !== null);
  }
}
