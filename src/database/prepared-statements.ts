import type { PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely';
import pg from 'pg';
import { DatabaseUnavailableError } from '../errors.ts';
import { throttleErrorReports } from './errors.ts';

/**
 * More statements than the service has. The limit protects the memory of the server, which keeps each statement until
 * its connection closes.
 */
const MAX_STATEMENTS = 300;

/** PostgreSQL's `feature_not_supported`: a migration changed the columns that a prepared statement returns. */
const RESULT_CHANGED_CODE = '0A000';

/** The codes for a server that is stopping, has crashed, or is starting; PgBouncer's for one that it cannot reach. */
const SHUTDOWN_CODE = /^(?:57P0[123]|08P01)$/;

/**
 * Wraps a pool so that it prepares statements, because parsing and planning most of them takes longer than running
 * them.
 *
 * Throws {@link DatabaseUnavailableError} if the pool has no connection, or the connection of a query breaks.
 *
 * @param onUnreachable receives the reason, at most once in ten seconds
 * @param shouldPrepare false behind a pooler that shares connections between transactions: PgBouncer before 1.21
 *   cannot prepare statements there
 */
export function withPreparedStatements(
  pool: pg.Pool,
  onUnreachable: (error: Error) => void,
  shouldPrepare = true,
): PostgresPool {
  const names = new Map<string, string>();
  const nameStatement = (text: string) => {
    if (shouldPrepare && !names.has(text) && names.size < MAX_STATEMENTS) {
      names.set(text, `nutpost_${names.size + 1}`);
    }
    return names.get(text) ?? null;
  };
  const report = throttleErrorReports(onUnreachable);
  return {
    options: pool.options,
    connect: async () => {
      try {
        return new PreparedStatementConnection(await pool.connect(), nameStatement, report);
      } catch (error) {
        report(error as Error);
        throw new DatabaseUnavailableError(error);
      }
    },
    end: () => pool.end(),
  };
}

/** Returns the name of a statement, which is the same on every connection; null beyond {@link MAX_STATEMENTS}. */
type StatementNamer = (text: string) => string | null;

/** A pooled connection while one query or transaction uses it. */
class PreparedStatementConnection implements PostgresPoolClient {
  readonly #client: pg.PoolClient;
  readonly #nameStatement: StatementNamer;
  readonly #reportError: (error: Error) => void;
  #hasStaleStatements = false;
  /**
   * After a client-side error, such as a timeout, the next response may belong to the failed query. Therefore all
   * later queries fail with this error, including a rollback, whose error is the only one that Kysely reports.
   */
  #connectionError: DatabaseUnavailableError | null = null;

  constructor(
    client: pg.PoolClient,
    nameStatement: StatementNamer,
    reportError: (error: Error) => void,
  ) {
    this.#client = client;
    this.#nameStatement = nameStatement;
    this.#reportError = reportError;
  }

  query<Row>(text: string, values: readonly unknown[]): Promise<PostgresQueryResult<Row>>;
  query(cursor: never): never;
  async query(text: string, values: readonly unknown[] = []): Promise<unknown> {
    if (this.#connectionError !== null) {
      throw this.#connectionError;
    }
    const name = values.length === 0 ? null : this.#nameStatement(text);
    try {
      return await this.#client.query({
        text,
        values: [...values],
        ...(name !== null && { name }),
      });
    } catch (error) {
      if (!(error instanceof pg.DatabaseError) || SHUTDOWN_CODE.test(error.code ?? '')) {
        this.#reportError(error as Error);
        this.#connectionError = new DatabaseUnavailableError(error);
        throw this.#connectionError;
      }
      if (error.code === RESULT_CHANGED_CODE) {
        this.#hasStaleStatements = true;
      }
      throw error;
    }
  }

  /** Returns the connection to the pool. The pool closes it if it is broken or its statements are stale. */
  release(isBroken = false): void {
    this.#client.release(isBroken || this.#hasStaleStatements || this.#connectionError !== null);
  }
}
