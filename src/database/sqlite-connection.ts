import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { isSqliteBusy } from './errors.ts';
import { MAX_PREPARED_STATEMENTS, MAX_WAL_BYTES } from './limits.ts';

/** A connection to SQLite that caches prepared statements. When a commit returns, its changes are on the disk. */
export class SqliteConnection {
  readonly #database: DatabaseSync;
  readonly #busyTimeoutMs: number;
  readonly #isReader: boolean;
  readonly #statements = new Map<string, { statement: StatementSync; returnsRows: boolean }>();
  readonly #totalChangesStatement: StatementSync;
  /** The notifications of the open transaction. */
  #notifications: SqliteResult['notifications'] = [];
  #lastTotalChanges = 0;
  /** False after a write timed out, until one succeeds, so that queued writes do not each wait for the timeout. */
  #shouldRetryWhenBusy = true;

  constructor({ file, mode, busyTimeoutMs }: SqliteConnectionOptions) {
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#isReader = mode === 'read';
    // Waits for another process that is closing the database, or recovering it after a crash.
    this.#database = new DatabaseSync(file, { timeout: 5_000 });
    try {
      this.#database.exec(`
        pragma synchronous = full;
        pragma foreign_keys = on;
        -- Pages of 4 KB. So many, because invoices change mostly the same pages, which a checkpoint writes once.
        pragma wal_autocheckpoint = 4000;
        pragma cache_size = -16000; -- KB
        pragma journal_size_limit = ${MAX_WAL_BYTES};
        ${mode === 'switch to WAL' ? 'pragma journal_mode = wal;' : ''}
        -- Throws if the file is not a database.
        select count(*) from sqlite_schema;
        ${this.#isReader ? 'pragma query_only = on;' : ''}
        -- From now on, #retryWhileBusy waits.
        pragma busy_timeout = 0;
      `);
      this.#totalChangesStatement = this.#database.prepare('select total_changes() as count');
    } catch (error) {
      this.#database.close();
      throw error;
    }
    // Named like PostgreSQL's function, so that the same statement works on both databases.
    this.#database.function('pg_notify', (channel, payload) => {
      this.#notifications.push([String(channel), String(payload)]);
      return null;
    });
  }

  /** @throws the error of `node:sqlite`, which has the result code as `errcode` */
  run(sql: string, parameters: readonly unknown[]): SqliteResult {
    try {
      const result = this.#retryWhileBusy(() =>
        this.#execute(sql, parameters as readonly SQLInputValue[]),
      );
      if (this.#database.isTransaction) {
        return { ...result, hasCommittedChanges: false, notifications: [] };
      }
      const { hasChanges, notifications } = this.#endTransaction();
      this.#shouldRetryWhenBusy ||= hasChanges;
      return { ...result, hasCommittedChanges: hasChanges, notifications };
    } catch (error) {
      if (!this.#database.isTransaction) {
        this.#endTransaction();
      }
      throw error;
    }
  }

  rollback(): void {
    // If the disk is full, SQLite may have rolled back already.
    if (this.#database.isTransaction) {
      this.#database.exec('rollback');
    }
    this.#endTransaction();
  }

  close(): void {
    this.#database.close();
  }

  #execute(sql: string, values: readonly SQLInputValue[]) {
    const { statement, returnsRows } = this.#prepare(sql);
    return returnsRows
      ? { rows: statement.all(...values), changes: 0 }
      : { rows: [], changes: statement.run(...values).changes };
  }

  #prepare(sql: string) {
    const cached = this.#statements.get(sql);
    if (cached !== undefined) {
      return cached;
    }
    const statement = this.#database.prepare(sql);
    const prepared = { statement, returnsRows: statement.columns().length > 0 };
    if (this.#statements.size < MAX_PREPARED_STATEMENTS) {
      this.#statements.set(sql, prepared);
    }
    return prepared;
  }

  #retryWhileBusy<T>(execute: () => T): T {
    const deadlineMs = performance.now() + this.#busyTimeoutMs;
    for (;;) {
      try {
        return execute();
      } catch (error) {
        if (!isSqliteBusy(error)) {
          throw error;
        }
        if (!this.#shouldRetryWhenBusy || performance.now() > deadlineMs) {
          // Readers always retry, because their timeout is short.
          this.#shouldRetryWhenBusy = this.#isReader;
          throw error;
        }
        // SQLite's own busy handler would sleep for up to 100 ms.
        sleepSync(2);
      }
    }
  }

  /** Returns the notifications of the transaction that has ended, and whether it changed rows. */
  #endTransaction(): { hasChanges: boolean; notifications: SqliteResult['notifications'] } {
    const notifications = this.#notifications;
    this.#notifications = [];
    const totalChanges = Number(this.#totalChangesStatement.get()?.['count']);
    const hasChanges = totalChanges > this.#lastTotalChanges;
    this.#lastTotalChanges = totalChanges;
    return { hasChanges, notifications };
  }
}

export interface SqliteConnectionOptions {
  file: string;
  /** `switch to WAL`: makes the journal of the file a write-ahead log, then writes like `write`. */
  mode: 'read' | 'write' | 'switch to WAL';
  /** How long a statement waits for the lock of another process, blocking the thread. */
  busyTimeoutMs: number;
}

export interface SqliteResult {
  rows: unknown[];
  changes: number | bigint;
  /** Whether this statement committed changes. If so, the disk works. */
  hasCommittedChanges: boolean;
  /** Those that this statement committed. */
  notifications: [channel: string, payload: string][];
}

export function sleepSync(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
