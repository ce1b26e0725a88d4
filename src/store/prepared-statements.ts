import type { PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely';
import pg from 'pg';

/**
 * The service has fewer statements than this. A text that is put together anew each time would
 * otherwise fill the memory of the server, which keeps each one for as long as its connection lasts.
 */
const MAX_STATEMENTS = 300;

/** PostgreSQL's `feature_not_supported`: a prepared statement's result would have other columns now. */
const RESULT_CHANGED = '0A000';

/**
 * A pool whose connections have the server read each statement once, and plan it a few times, and not at
 * every use: for most of ours, that takes it longer than the answer does.
 *
 * It needs connections that stay with whoever has them, as hearing of notifications does.
 */
export function preparingPool(pool: pg.Pool): PostgresPool {
  const names = new StatementNames();
  return {
    options: pool.options,
    connect: async () => new PreparingConnection(await pool.connect(), names),
    end: () => pool.end(),
  };
}

/** A connection of a pool, in the hands of one query or transaction. */
class PreparingConnection implements PostgresPoolClient {
  readonly #client: pg.PoolClient;
  readonly #names: StatementNames;
  #isOutdated = false;
  #lostBy: Error | null = null;

  constructor(client: pg.PoolClient, names: StatementNames) {
    this.#client = client;
    this.#names = names;
  }

  query<Row>(text: string, values: readonly unknown[]): Promise<PostgresQueryResult<Row>>;
  query(cursor: never): never;
  async query(text: string, values: readonly unknown[] = []): Promise<unknown> {
    const query = { text, values: [...values] };
    const name = values.length === 0 ? null : this.#names.of(text);
    const isAlone = this.#client.getTransactionStatus() === 'I';
    try {
      return await this.#ask({ ...query, ...(name !== null && { name }) });
    } catch (error) {
      if ((error as pg.DatabaseError).code !== RESULT_CHANGED) {
        throw error;
      }
      this.#isOutdated = true;
      if (!isAlone) {
        // The transaction is lost: nothing in it can be asked again.
        throw error;
      }
      // It was refused before anything was done.
      return await this.#ask(query);
    }
  }

  /**
   * What the server did not say itself, such as that its answer takes too long, leaves nobody sure of what
   * the connection says next. All that is asked of it later fails at once, and with the same error: where
   * a rollback fails, too, Kysely tells of that one alone.
   */
  async #ask(query: pg.QueryConfig): Promise<pg.QueryResult> {
    if (this.#lostBy !== null) {
      throw this.#lostBy;
    }
    try {
      return await this.#client.query(query);
    } catch (error) {
      if (!(error instanceof pg.DatabaseError)) {
        this.#lostBy = error as Error;
      }
      throw error;
    }
  }

  /** One that is lost, or whose statements are of tables as they were, makes way for a new one. */
  release(isBroken = false): void {
    this.#client.release(isBroken || this.#isOutdated || this.#lostBy !== null);
  }
}

/** What statements are called on every connection of a pool. */
class StatementNames {
  readonly #names = new Map<string, string>();

  /** Null for one too many. */
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
