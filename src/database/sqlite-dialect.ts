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
import { DatabaseUnavailable } from '../errors.ts';
import { isSqliteFailure, throttledReport } from './errors.ts';
import type { Notification, SqliteConnection, SqliteResult } from './sqlite-connection.ts';
import type { SqliteThread } from './sqlite-thread.ts';

/** Matches statements that only read, and send no notification. The reading connection rejects all others. */
const READ = /^\s*(?:select|with)\b(?!.*\b(?:insert|update|delete|pg_notify)\b)/is;

/** What happens on a connection to SQLite. */
export interface SqliteEvents {
  /** Called with each notification once its transaction has committed. */
  onNotify: (...notification: Notification) => void;
  /** Called when the disk is full or broken, at most once in ten seconds. */
  onFailure: (error: Error) => void;
}

/** The connections to one database. */
interface SqliteConnections {
  writer: SqliteThread;
  /** Opens a connection that only reads. */
  openReader: () => SqliteConnection;
}

/** Kysely's dialect for `node:sqlite`. */
export class NodeSqliteDialect implements Dialect {
  readonly #driver: SqliteDriver;

  constructor(connections: SqliteConnections, events: SqliteEvents) {
    this.#driver = new SqliteDriver(connections, events);
  }

  /** Whether the last write reached the disk, and none has waited for it for long. */
  get isWritable(): boolean {
    return this.#driver.isWritable;
  }

  /** Truncates the WAL file, unless another connection is reading. */
  checkpoint(): Promise<void> {
    return this.#driver.checkpoint();
  }

  /** Kysely does not close a driver that it never used. */
  close(): Promise<void> {
    return this.#driver.destroy();
  }

  createDriver(): Driver {
    return this.#driver;
  }

  createQueryCompiler() {
    return new SqliteQueryCompiler();
  }

  createAdapter() {
    return new NodeSqliteAdapter();
  }

  createIntrospector(db: ConstructorParameters<typeof SqliteIntrospector>[0]) {
    return new SqliteIntrospector(db);
  }
}

class NodeSqliteAdapter extends SqliteAdapter {
  /** A migration is one transaction, so that a start that is killed leaves no half of it. */
  override get supportsTransactionalDdl(): boolean {
    return true;
  }

  /** The driver decides which queries wait: Kysely would make reads wait for the end of a write. */
  override get supportsMultipleConnections(): boolean {
    return true;
  }
}

/** One query or transaction of Kysely. */
class SqliteSession implements DatabaseConnection {
  readonly #driver: SqliteDriver;
  /** The snapshot of a transaction that only reads. */
  snapshot: SqliteConnection | null = null;

  constructor(driver: SqliteDriver) {
    this.#driver = driver;
  }

  async executeQuery<Row>(query: CompiledQuery): Promise<QueryResult<Row>> {
    const { rows, changes, insertId } = await this.#driver.execute(this, query);
    return {
      rows: rows as Row[],
      numAffectedRows: BigInt(changes),
      insertId: BigInt(insertId),
    };
  }

  // biome-ignore lint/correctness/useYield: Kysely asks for it, and no query of the service is streamed.
  async *streamQuery(): AsyncGenerator<never> {
    throw new Error('queries are not streamed');
  }
}

/**
 * Executes writes and transactions on one connection, one transaction at a time, and other reads on a second connection,
 * so that they do not wait for commits.
 */
class SqliteDriver implements Driver {
  readonly #writer: SqliteThread;
  readonly #openReader: () => SqliteConnection;
  readonly #reader: SqliteConnection;
  readonly #onNotify: SqliteEvents['onNotify'];
  readonly #report: (error: Error) => void;
  #closing: Promise<void> | null = null;
  #hasFailed = false;
  /** The transaction that uses the writing connection, and the promise that the others wait for. */
  #transaction: { session: SqliteSession; end: PromiseWithResolvers<void> } | null = null;

  constructor({ writer, openReader }: SqliteConnections, { onNotify, onFailure }: SqliteEvents) {
    this.#writer = writer;
    this.#openReader = openReader;
    this.#reader = openReader();
    this.#onNotify = onNotify;
    this.#report = throttledReport(onFailure);
  }

  get isWritable(): boolean {
    return !this.#hasFailed && !this.#writer.isStuck;
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<SqliteSession> {
    return new SqliteSession(this);
  }

  async execute(
    session: SqliteSession,
    { sql, parameters }: Pick<CompiledQuery, 'sql' | 'parameters'>,
  ): Promise<SqliteResult> {
    const isInTransaction = this.#transaction?.session === session;
    const reader = session.snapshot ?? (!isInTransaction && READ.test(sql) ? this.#reader : null);
    if (reader !== null) {
      return this.#attempt(() => reader.run(sql, parameters));
    }
    const result = await this.#whenFree(session, () => this.#writer.run(sql, parameters));
    this.#hasFailed &&= !result.hasWritten;
    for (const notification of result.notifications) {
      this.#onNotify(...notification);
    }
    return result;
  }

  async beginTransaction(session: SqliteSession, { accessMode }: TransactionSettings) {
    if (accessMode === 'read only') {
      session.snapshot = await this.#attempt(this.#openReader);
      await this.execute(session, { sql: 'begin', parameters: [] });
      return;
    }
    await this.#whenFree(session, () => {
      this.#transaction = { session, end: Promise.withResolvers() };
      // A transaction that began as a reader could not write after another process did.
      return this.#writer.run('begin immediate', []);
    });
  }

  async commitTransaction(session: SqliteSession): Promise<void> {
    await this.execute(session, { sql: 'commit', parameters: [] });
  }

  async rollbackTransaction(session: SqliteSession): Promise<void> {
    await this.#attempt(() => (session.snapshot ?? this.#writer).rollback());
  }

  async releaseConnection(session: SqliteSession): Promise<void> {
    session.snapshot?.close();
    session.snapshot = null;
    if (this.#transaction?.session === session) {
      this.#transaction.end.resolve();
      this.#transaction = null;
    }
  }

  async checkpoint(): Promise<void> {
    await this.#whenFree(null, () => this.#writer.checkpoint());
  }

  destroy(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Closes the writer last: the last connection to close runs a checkpoint, which blocks its thread. */
  async #close(): Promise<void> {
    this.#reader.close();
    await this.#writer.close();
  }

  /** Uses the writing connection when no other transaction has it. */
  async #whenFree<T>(session: SqliteSession | null, use: () => T | Promise<T>): Promise<T> {
    while (this.#transaction !== null && this.#transaction.session !== session) {
      await this.#transaction.end.promise;
    }
    return this.#attempt(use);
  }

  /** @throws DatabaseUnavailable if another process keeps the database locked, or it or its disk fails */
  async #attempt<T>(work: () => T | Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!isSqliteFailure(error)) {
        throw error;
      }
      this.#hasFailed = true;
      this.#report(error as Error);
      throw new DatabaseUnavailable(error);
    }
  }
}
