import type { PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely';
import pg from 'pg';
import { DatabaseUnavailable } from '../errors.ts';
import { throttledReport } from './errors.ts';

/**
 * The service has fewer statements than this. Without the bound, texts that differ each time would fill the memory of
 * the server, which keeps each one for as long as its connection lasts.
 */
const MAX_STATEMENTS = 300;

/** PostgreSQL's `feature_not_supported`: a prepared statement's result would have other columns now. */
const RESULT_CHANGED = '0A000';

/** PostgreSQL's codes for a server that stops, has crashed, or is starting. */
const SHUTDOWN = /^57P0[123]$/;

/**
 * Makes a pool prepare its statements, because parsing and planning most of them takes longer than running them. It
 * needs connections that are not shared between transactions by a pooler, as LISTEN does. Its `connect` throws
 * {@link DatabaseUnavailable} if there is no connection, and so does a query whose connection is lost.
 *
 * @param onUnreachable called with the reason, at most once in ten seconds
 */
export function preparingPool(pool: pg.Pool, onUnreachable: (error: Error) => void): PostgresPool {
  const names = new StatementNames();
  const report = throttledReport(onUnreachable);
  return {
    options: pool.options,
    connect: async () => {
      try {
        return new PreparingConnection(await pool.connect(), names, report);
      } catch (error) {
        report(error as Error);
        throw new DatabaseUnavailable(error);
      }
    },
    end: () => pool.end(),
  };
}

/** A connection of a pool, in the hands of one query or transaction. */
class PreparingConnection implements PostgresPoolClient {
  readonly #client: pg.PoolClient;
  readonly #names: StatementNames;
  readonly #report: (error: Error) => void;
  #isOutdated = false;
  /**
   * After an error that did not come from the server, such as a timeout, the next answer may belong to an earlier query,
   * so all later queries fail with the same error. If a rollback fails too, Kysely reports only that error.
   */
  #lostBy: DatabaseUnavailable | null = null;

  constructor(client: pg.PoolClient, names: StatementNames, report: (error: Error) => void) {
    this.#client = client;
    this.#names = names;
    this.#report = report;
  }

  query<Row>(text: string, values: readonly unknown[]): Promise<PostgresQueryResult<Row>>;
  query(cursor: never): never;
  async query(text: string, values: readonly unknown[] = []): Promise<unknown> {
    if (this.#lostBy !== null) {
      throw this.#lostBy;
    }
    const name = values.length === 0 ? null : this.#names.of(text);
    try {
      return await this.#client.query({
        text,
        values: [...values],
        ...(name !== null && { name }),
      });
    } catch (error) {
      if (!(error instanceof pg.DatabaseError) || SHUTDOWN.test(error.code ?? '')) {
        this.#report(error as Error);
        this.#lostBy = new DatabaseUnavailable(error);
        throw this.#lostBy;
      }
      if (error.code === RESULT_CHANGED) {
        this.#isOutdated = true;
      }
      throw error;
    }
  }

  /** Makes way for a new connection if this one is lost, or its statements are of tables as they were. */
  release(isBroken = false): void {
    this.#client.release(isBroken || this.#isOutdated || this.#lostBy !== null);
  }
}

/** The names of statements on every connection of a pool. */
class StatementNames {
  readonly #names = new Map<string, string>();

  /** Returns null beyond {@link MAX_STATEMENTS}. */
  of(text: string): string | null {
    const known = this.#names.get(text);
    if (known !== undefined || this.#names.size >= MAX_STATEMENTS) {
      return known ?? null;
    }
    const name = `nutpost_${this.#names.size + 1}`;
    this.#names.set(text, name);
    return name;
  }
}
