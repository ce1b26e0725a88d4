import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
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
import { DatabaseUnavailable, OperatorError } from '../domain/errors.ts';
import { MAX_STATEMENTS } from './prepared-statements.ts';
import { isSqliteBusy, isSqliteFailure } from './sqlite-errors.ts';
import { throttledReport } from './throttled-report.ts';

/** Only the user of the service may read: the ids of quotes are secret. */
const PRIVATE_DIR = 0o700;
const PRIVATE_FILE = 0o600;

/** A process that closes the database, or recovers it after a crash, locks it for as long as it writes to the disk. */
const OPEN_TIMEOUT_MS = 5_000;

/** How often a query tries again while another process locks the database. SQLite itself would block this process. */
const BUSY_RETRY_MS = 20;

/** How long queries wait for another process. Payers wait this long. */
export const SERVICE_BUSY_LIMIT_MS = 3_000;

/** Operator commands wait longer, because no client waits for them. */
export const COMMAND_BUSY_LIMIT_MS = 30_000;

/** Pages of 4 KB in the WAL before a checkpoint: 16 MB. Invoices change mostly the same pages. */
const CHECKPOINT_PAGES = 4_000;

const CACHE_KB = 16_000;

/** The WAL file is cut back to this size after a checkpoint. */
const MAX_WAL_BYTES = 16 * 1024 * 1024;

/** Returns the path of the database in a data directory. */
export function sqliteFile(dataDir: string): string {
  return path.join(dataDir, 'nutpost.sqlite');
}

/** Creates a data directory that only this user may enter. @throws OperatorError if it cannot be used */
export function createDataDir(dataDir: string): void {
  try {
    fs.mkdirSync(dataDir, { recursive: true, mode: PRIVATE_DIR });
    fs.accessSync(dataDir, fs.constants.W_OK | fs.constants.X_OK);
    fs.closeSync(fs.openSync(sqliteFile(dataDir), 'a', PRIVATE_FILE));
  } catch (error) {
    throw new OperatorError(
      `DATA_DIR: the directory cannot be used (${(error as Error).message}).`,
    );
  }
}

/** What happens on a connection to SQLite. */
export interface SqliteEvents {
  /** Called with what `pg_notify` sent, once its transaction has committed. */
  onNotify: (channel: string, payload: string) => void;
  /** Called when the disk is full or broken, at most once in ten seconds. */
  onFailure: (error: Error) => void;
}

/**
 * Opens a database file, or one in memory. A commit is on the disk before it resolves (`synchronous = full`).
 *
 * @param switchToWal whether to write to a file that does not have a write-ahead log yet, which lets operator commands
 *   read and write beside the service
 * @throws OperatorError if the file is no database, or the disk fails
 */
export function openSqlite(file: string, switchToWal: boolean): DatabaseSync {
  const database = new DatabaseSync(file, { timeout: OPEN_TIMEOUT_MS, open: false });
  try {
    database.open();
    database.exec(`
      pragma synchronous = full;
      pragma foreign_keys = on;
      pragma wal_autocheckpoint = ${CHECKPOINT_PAGES};
      pragma cache_size = -${CACHE_KB};
      pragma journal_size_limit = ${MAX_WAL_BYTES};
      ${switchToWal ? 'pragma journal_mode = wal;' : ''}
      -- Fails if the file is no database.
      select count(*) from sqlite_schema;
      pragma busy_timeout = 0;
    `);
  } catch (error) {
    if (database.isOpen) {
      database.close();
    }
    throw new OperatorError(`DATA_DIR: ${file} cannot be used (${(error as Error).message}).`);
  }
  return database;
}

/** Kysely's dialect for `node:sqlite`. */
export class NodeSqliteDialect implements Dialect {
  readonly #driver: SqliteDriver;

  constructor(database: DatabaseSync, busyLimitMs: number, events: SqliteEvents) {
    this.#driver = new SqliteDriver(database, busyLimitMs, events);
  }

  /** Whether the last write reached the disk. */
  get isWritable(): boolean {
    return this.#driver.isWritable;
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

  /** The driver decides who waits: Kysely would keep reads from the connection while a write waits for its lock. */
  override get supportsMultipleConnections(): boolean {
    return true;
  }
}

/** One query or transaction of Kysely, on the only connection to the file. */
class SqliteSession implements DatabaseConnection {
  readonly #driver: SqliteDriver;

  constructor(driver: SqliteDriver) {
    this.#driver = driver;
  }

  executeQuery<Row>(query: CompiledQuery): Promise<QueryResult<Row>> {
    return this.#driver.execute(this, query);
  }

  // biome-ignore lint/correctness/useYield: Kysely asks for it, and no query of the service is streamed.
  async *streamQuery(): AsyncGenerator<never> {
    throw new Error('queries are not streamed');
  }
}

/** Shares one connection: a transaction has it alone, and between transactions everyone may use it. */
class SqliteDriver implements Driver {
  isWritable = true;
  readonly #database: DatabaseSync;
  readonly #busyLimitMs: number;
  readonly #onNotify: SqliteEvents['onNotify'];
  readonly #report: (error: Error) => void;
  readonly #statements = new Map<string, PreparedStatement>();
  readonly #totalChanges: StatementSync;
  /** The transaction that has the connection, and what the others wait for. */
  #transaction: { session: DatabaseConnection; end: PromiseWithResolvers<void> } | null = null;
  #notifications: [channel: string, payload: string][] = [];
  /** While not writable: a commit with more changes has reached the disk. Reading proves nothing about it. */
  #changesSoFar = 0;
  /** While not writable: the only session that waits for another process. The others try once. */
  #waiter: DatabaseConnection | null = null;

  constructor(database: DatabaseSync, busyLimitMs: number, { onNotify, onFailure }: SqliteEvents) {
    this.#database = database;
    this.#busyLimitMs = busyLimitMs;
    this.#onNotify = onNotify;
    this.#report = throttledReport(onFailure);
    this.#totalChanges = database.prepare('select total_changes() as count');
    // It has the name of PostgreSQL's function, so that both databases take the same statement.
    database.function('pg_notify', (channel, payload) => {
      this.#notifications.push([String(channel), String(payload)]);
      return null;
    });
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    return new SqliteSession(this);
  }

  execute<Row>(
    session: DatabaseConnection,
    { sql, parameters }: CompiledQuery,
  ): Promise<QueryResult<Row>> {
    return this.#retryWhileBusy(session, () => {
      const result = this.#execute<Row>(sql, parameters);
      if (!this.#database.isTransaction) {
        this.#committed();
      }
      return result;
    });
  }

  async beginTransaction(
    session: DatabaseConnection,
    settings: TransactionSettings,
  ): Promise<void> {
    // A transaction that began as a reader could not write after another process did.
    const mode = settings.accessMode === 'read only' ? 'deferred' : 'immediate';
    await this.#retryWhileBusy(session, () => {
      this.#database.exec(`begin ${mode}`);
      this.#transaction = { session, end: Promise.withResolvers() };
    });
  }

  async commitTransaction(session: DatabaseConnection): Promise<void> {
    await this.#retryWhileBusy(session, () => {
      this.#database.exec('commit');
      this.#committed();
    });
  }

  async rollbackTransaction(): Promise<void> {
    this.#notifications = [];
    // SQLite has rolled back by itself if the disk is full.
    if (this.#database.isTransaction) {
      this.#database.exec('rollback');
    }
    this.#changesSoFar = this.#countChanges();
  }

  async releaseConnection(session: DatabaseConnection): Promise<void> {
    if (this.#transaction?.session === session) {
      this.#transaction.end.resolve();
      this.#transaction = null;
    }
  }

  async destroy(): Promise<void> {
    this.#database.close();
  }

  #execute<Row>(text: string, parameters: readonly unknown[]): QueryResult<Row> {
    const { statement, returnsRows } = this.#prepare(text);
    const values = parameters as readonly SQLInputValue[];
    if (returnsRows) {
      return { rows: statement.all(...values) as Row[] };
    }
    const { changes, lastInsertRowid } = statement.run(...values);
    return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) };
  }

  #prepare(text: string): PreparedStatement {
    const known = this.#statements.get(text);
    if (known !== undefined) {
      return known;
    }
    const statement = this.#database.prepare(text);
    const prepared = { statement, returnsRows: statement.columns().length > 0 };
    if (this.#statements.size < MAX_STATEMENTS) {
      this.#statements.set(text, prepared);
    }
    return prepared;
  }

  /**
   * Runs `work` when no other transaction has the connection, and again while another process locks the database. Other
   * queries use the connection between two tries, so `work` must not leave anything to do later.
   *
   * @throws DatabaseUnavailable if another process keeps the lock, or the database or its disk fails
   */
  async #retryWhileBusy<T>(session: DatabaseConnection, work: () => T): Promise<T> {
    let giveUpAtMs: number | null = null;
    try {
      for (;;) {
        while (this.#transaction !== null && this.#transaction.session !== session) {
          await this.#transaction.end.promise;
        }
        try {
          return work();
        } catch (error) {
          if (!isSqliteFailure(error)) {
            throw error;
          }
          const nowMs = performance.now();
          giveUpAtMs ??= nowMs + this.#busyLimitMs;
          if (!isSqliteBusy(error) || nowMs > giveUpAtMs || !this.#mayWait(session)) {
            this.isWritable = false;
            this.#changesSoFar = this.#countChanges();
            this.#report(error as Error);
            throw new DatabaseUnavailable(error);
          }
        }
        await delay(BUSY_RETRY_MS);
      }
    } finally {
      if (this.#waiter === session) {
        this.#waiter = null;
      }
    }
  }

  /** After a write has failed, only one session at a time waits, so that requests do not pile up. */
  #mayWait(session: DatabaseConnection): boolean {
    if (!this.isWritable) {
      this.#waiter ??= session;
    }
    return this.isWritable || this.#waiter === session;
  }

  #committed(): void {
    this.isWritable ||= this.#countChanges() > this.#changesSoFar;
    const notifications = this.#notifications;
    this.#notifications = [];
    for (const [channel, payload] of notifications) {
      this.#onNotify(channel, payload);
    }
  }

  /** Returns how many rows this connection has changed, also those that were rolled back. */
  #countChanges(): number {
    return Number(this.#totalChanges.get()?.['count']);
  }
}

interface PreparedStatement {
  statement: StatementSync;
  returnsRows: boolean;
}
