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
import { OperatorError } from '../domain/errors.ts';
import { DatabaseUnavailable, throttledReport } from './unavailable.ts';

/** Only the user of the service may read: the ids of quotes are secret. */
const PRIVATE_DIR = 0o700;
const PRIVATE_FILE = 0o600;

/** How long a statement blocks this process while another process writes. Beyond, the driver waits without blocking. */
const BUSY_TIMEOUT_MS = 50;

/** A process that closes the database, or recovers it after a crash, locks it for as long as it writes to the disk. */
const OPEN_TIMEOUT_MS = 5_000;

const BUSY_RETRY_MS = 20;

/** Only `nutpost import` writes for longer in one transaction, into a database that is empty. */
const BUSY_LIMIT_MS = 10_000;

/** Pages of 4 KB in the WAL before a checkpoint: 16 MB. Invoices change mostly the same pages. */
const CHECKPOINT_PAGES = 4_000;

const CACHE_KB = 16_000;

/** The WAL file is cut back to this size after a checkpoint. */
const MAX_WAL_BYTES = 16 * 1024 * 1024;

/** The service has fewer statements than this. */
const MAX_STATEMENTS = 300;

const SQLITE_BUSY = 5;
const SQLITE_IOERR = 10;
const SQLITE_FULL = 13;
/** The lower byte of SQLite's extended result codes. */
const PRIMARY_CODE = 0xff;

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
 * Opens a database file, or one in memory.
 *
 * A commit is on the disk before it resolves (`synchronous = full`). The write-ahead log lets operator commands read
 * and write beside the service.
 *
 * @throws OperatorError if the file is no database, or the disk fails
 */
export function openSqlite(file: string): DatabaseSync {
  const database = new DatabaseSync(file, { timeout: OPEN_TIMEOUT_MS, open: false });
  try {
    database.open();
    database.exec(`
      pragma journal_mode = wal;
      pragma synchronous = full;
      pragma foreign_keys = on;
      pragma wal_autocheckpoint = ${CHECKPOINT_PAGES};
      pragma cache_size = -${CACHE_KB};
      pragma journal_size_limit = ${MAX_WAL_BYTES};
      pragma busy_timeout = ${BUSY_TIMEOUT_MS};
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
  readonly #connection: SqliteConnection;

  constructor(database: DatabaseSync, events: SqliteEvents) {
    this.#connection = new SqliteConnection(database, events);
  }

  /** Whether the last write reached the disk. */
  get isWritable(): boolean {
    return this.#connection.isWritable;
  }

  createDriver(): Driver {
    return this.#connection;
  }

  createQueryCompiler() {
    return new SqliteQueryCompiler();
  }

  createAdapter() {
    return new TransactionalDdlAdapter();
  }

  createIntrospector(db: ConstructorParameters<typeof SqliteIntrospector>[0]) {
    return new SqliteIntrospector(db);
  }
}

/** A migration is one transaction, so that a start that is killed leaves no half of it. */
class TransactionalDdlAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

/** The only connection, which Kysely gives to one query or transaction at a time, and its driver. */
class SqliteConnection implements DatabaseConnection, Driver {
  isWritable = true;
  readonly #database: DatabaseSync;
  readonly #onNotify: SqliteEvents['onNotify'];
  readonly #report: (error: Error) => void;
  readonly #statements = new Map<string, PreparedStatement>();
  #notifications: [channel: string, payload: string][] = [];
  /** Whether the next commit writes. Reading proves nothing about the disk. */
  #hasChanges = false;

  constructor(database: DatabaseSync, { onNotify, onFailure }: SqliteEvents) {
    this.#database = database;
    this.#onNotify = onNotify;
    this.#report = throttledReport(onFailure);
    // It has the name of PostgreSQL's function, so that both databases take the same statement.
    database.function('pg_notify', (channel, payload) => {
      this.#notifications.push([String(channel), String(payload)]);
      return null;
    });
  }

  async executeQuery<Row>({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
    const result = await this.#retryWhileBusy(() => this.#execute<Row>(sql, parameters));
    this.#hasChanges ||= (result.numAffectedRows ?? 0n) > 0n;
    if (!this.#database.isTransaction) {
      this.#committed();
    }
    return result;
  }

  // biome-ignore lint/correctness/useYield: Kysely asks for it, and no query of the service is streamed.
  async *streamQuery(): AsyncGenerator<never> {
    throw new Error('queries are not streamed');
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    return this;
  }

  async releaseConnection(): Promise<void> {}

  async beginTransaction(_: DatabaseConnection, settings: TransactionSettings): Promise<void> {
    // A transaction that began as a reader could not write after another process did.
    const mode = settings.accessMode === 'read only' ? 'deferred' : 'immediate';
    await this.#retryWhileBusy(() => this.#database.exec(`begin ${mode}`));
  }

  async commitTransaction(): Promise<void> {
    await this.#retryWhileBusy(() => this.#database.exec('commit'));
    this.#committed();
  }

  async rollbackTransaction(): Promise<void> {
    this.#notifications = [];
    this.#hasChanges = false;
    // SQLite has rolled back by itself if the disk is full.
    if (this.#database.isTransaction) {
      this.#database.exec('rollback');
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

  /** @throws DatabaseUnavailable if another process keeps writing, or the disk fails */
  async #retryWhileBusy<T>(work: () => T): Promise<T> {
    const giveUpAtMs = performance.now() + BUSY_LIMIT_MS;
    for (;;) {
      try {
        return work();
      } catch (error) {
        const code = primaryCode(error);
        if (code !== SQLITE_BUSY && code !== SQLITE_FULL && code !== SQLITE_IOERR) {
          throw error;
        }
        // Once one has waited in vain, others only try: reads wait behind them for the connection.
        const isWaiting = code === SQLITE_BUSY && this.isWritable;
        if (!isWaiting || performance.now() > giveUpAtMs) {
          this.isWritable = false;
          this.#report(error as Error);
          throw new DatabaseUnavailable(error);
        }
      }
      await delay(BUSY_RETRY_MS);
    }
  }

  #committed(): void {
    this.isWritable ||= this.#hasChanges;
    this.#hasChanges = false;
    const notifications = this.#notifications;
    this.#notifications = [];
    for (const [channel, payload] of notifications) {
      this.#onNotify(channel, payload);
    }
  }
}

interface PreparedStatement {
  statement: StatementSync;
  returnsRows: boolean;
}

/** SQLite's result code without its extension; 0 for other errors. */
function primaryCode(error: unknown): number {
  return error instanceof Error && 'errcode' in error ? Number(error.errcode) & PRIMARY_CODE : 0;
}
