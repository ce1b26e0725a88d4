import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type TransactionSettings,
} from 'kysely';
import { DatabaseUnavailableError } from '../errors.ts';
import { isSqliteFailure } from './errors.ts';
import type { SqliteConnection, SqliteResult } from './sqlite-connection.ts';
import type { SqliteWorker } from './sqlite-worker.ts';

/** Matches statements that neither write nor notify. If it matched a write by mistake, the reader would reject that. */
const READ_ONLY_STATEMENT = /^\s*(?:select|with)\b(?!.*\b(?:insert|update|delete|pg_notify)\b)/is;

export function createSqliteDialect(driver: SqliteDriver): Dialect {
  return {
    createDriver: () => driver,
    createQueryCompiler: () => new SqliteQueryCompiler(),
    createAdapter: () => new NodeSqliteAdapter(),
    createIntrospector: (db) => new SqliteIntrospector(db),
  };
}

class NodeSqliteAdapter extends SqliteAdapter {
  /** Makes Kysely run each migration in a transaction, so that a killed process leaves no half-applied migration. */
  override get supportsTransactionalDdl(): boolean {
    return true;
  }

  /** Keeps Kysely from running one query at a time. {@link SqliteDriver} does so for writes. */
  override get supportsMultipleConnections(): boolean {
    return true;
  }
}

/** One query or transaction of Kysely, which uses the connections of {@link SqliteDriver}. */
class SqliteSession implements DatabaseConnection {
  readonly #driver: SqliteDriver;
  /** The connection of a read-only transaction. */
  snapshot: SqliteConnection | null = null;

  constructor(driver: SqliteDriver) {
    this.#driver = driver;
  }

  async executeQuery<Row>({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
    const { rows, changes } = await this.#driver.execute(this, sql, parameters);
    return { rows: rows as Row[], numAffectedRows: BigInt(changes) };
  }

  // biome-ignore lint/correctness/useYield: Kysely requires the method; the service streams no query.
  async *streamQuery(): AsyncGenerator<never> {
    throw new Error('queries are not streamed');
  }
}

interface SqliteDriverOptions {
  writer: SqliteWorker;
  openReader: () => SqliteConnection;
  onNotification: (channel: string, payload: string) => void;
  onFailure: (error: Error) => void;
}

/**
 * Runs writes and transactions on one connection (the writer), one after the other. Runs other reads on a second one
 * (the reader), so that they do not wait for commits. Opens a connection for each read-only transaction.
 */
export class SqliteDriver implements Driver {
  readonly #options: SqliteDriverOptions;
  readonly #reader: SqliteConnection;
  #closing: Promise<void> | null = null;
  /** True after a failure, until a write succeeds. */
  #hasFailed = false;
  /** The transaction that uses the writer. `end` resolves when the transaction is over. */
  #transaction: { session: SqliteSession; end: PromiseWithResolvers<void> } | null = null;

  constructor(options: SqliteDriverOptions) {
    this.#options = options;
    this.#reader = options.openReader();
  }

  get isWritable(): boolean {
    return !this.#hasFailed && !this.#options.writer.isStuck;
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<SqliteSession> {
    return new SqliteSession(this);
  }

  async execute(
    session: SqliteSession,
    sql: string,
    parameters: readonly unknown[] = [],
  ): Promise<SqliteResult> {
    const isInTransaction = this.#transaction?.session === session;
    const canUseReader = !isInTransaction && READ_ONLY_STATEMENT.test(sql);
    const reader = session.snapshot ?? (canUseReader ? this.#reader : null);
    if (reader !== null) {
      return this.#convertFailures(() => reader.run(sql, parameters));
    }
    const result = await this.#withWriter(session, (writer) => writer.run(sql, parameters));
    if (result.hasCommittedChanges) {
      this.#hasFailed = false;
    }
    for (const notification of result.notifications) {
      this.#options.onNotification(...notification);
    }
    return result;
  }

  async beginTransaction(session: SqliteSession, { accessMode }: TransactionSettings) {
    if (accessMode === 'read only') {
      session.snapshot = await this.#convertFailures(this.#options.openReader);
      await this.execute(session, 'begin');
      return;
    }
    await this.#withWriter(session, (writer) => {
      this.#transaction = { session, end: Promise.withResolvers() };
      // Takes the lock at once: a transaction that began with a read could not write after another process has written.
      return writer.run('begin immediate', []);
    });
  }

  async commitTransaction(session: SqliteSession): Promise<void> {
    await this.execute(session, 'commit');
  }

  async rollbackTransaction(session: SqliteSession): Promise<void> {
    await this.#convertFailures(() => (session.snapshot ?? this.#options.writer).rollback());
  }

  async releaseConnection(session: SqliteSession): Promise<void> {
    session.snapshot?.close();
    session.snapshot = null;
    if (this.#transaction?.session === session) {
      this.#transaction.end.resolve();
      this.#transaction = null;
    }
  }

  destroy(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** The last connection to close runs a checkpoint, which blocks its thread: let that be the writer's. */
  async #close(): Promise<void> {
    this.#reader.close();
    await this.#options.writer.close();
  }

  /** Waits for the transaction of another session, then calls `use` at once, before another transaction can begin. */
  async #withWriter<T>(session: SqliteSession, use: (writer: SqliteWorker) => Promise<T>) {
    while (this.#transaction !== null && this.#transaction.session !== session) {
      await this.#transaction.end.promise;
    }
    return this.#convertFailures(() => use(this.#options.writer));
  }

  /** @throws DatabaseUnavailableError if the database is locked by another process, or it or its disk fails */
  async #convertFailures<T>(work: () => T | Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!isSqliteFailure(error)) {
        throw error;
      }
      this.#hasFailed = true;
      this.#options.onFailure(error as Error);
      throw new DatabaseUnavailableError(error);
    }
  }
}
