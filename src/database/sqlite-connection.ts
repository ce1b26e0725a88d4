import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { isSqliteBusy } from './errors.ts';
import {
  BUSY_RETRY_MS,
  CHECKPOINT_PAGES,
  MAX_PREPARED_STATEMENTS,
  MAX_WAL_BYTES,
  SQLITE_CACHE_KB,
  SQLITE_OPEN_TIMEOUT_MS,
} from './limits.ts';

export type SqliteNotification = readonly [channel: string, payload: string];

export interface SqliteResult {
  rows: unknown[];
  changes: number | bigint;
  insertId: number | bigint;
  /** Whether this statement committed changes. If so, the disk works. */
  hasCommittedChanges: boolean;
  notifications: readonly SqliteNotification[];
}

export interface SqliteConnectionOptions {
  file: string;
  mode: 'read' | 'write' | 'switch to WAL';
  /** How long a statement waits for the lock of another process, blocking the thread. */
  busyTimeoutMs: number;
}

/** A connection to SQLite that caches prepared statements. When a commit returns, its changes are on the disk. */
export class SqliteConnection {
  readonly #database: DatabaseSync;
  readonly #busyTimeoutMs: number;
  readonly #statements = new Map<string, { statement: StatementSync; returnsRows: boolean }>();
  readonly #totalChangesStatement: StatementSync;
  #notifications: SqliteNotification[] = [];
  /** The value of `total_changes()` at the last commit or rollback. */
  #lastTotalChanges = 0;
  /** False after a timeout, until a write succeeds. Otherwise each queued write would wait for the whole timeout. */
  #shouldRetryWhenBusy = true;
  readonly #isReader: boolean;

  constructor({ file, mode, busyTimeoutMs }: SqliteConnectionOptions) {
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#isReader = mode === 'read';
    this.#database = new DatabaseSync(file, { timeout: SQLITE_OPEN_TIMEOUT_MS });
    try {
      this.#database.exec(`
        pragma synchronous = full;
        pragma foreign_keys = on;
        pragma wal_autocheckpoint = ${CHECKPOINT_PAGES};
        pragma cache_size = -${SQLITE_CACHE_KB};
        pragma journal_size_limit = ${MAX_WAL_BYTES};
        ${mode === 'switch to WAL' ? 'pragma journal_mode = wal;' : ''}
        -- Fails if the file is not a database.
        select count(*) from sqlite_schema;
        ${this.#isReader ? 'pragma query_only = on;' : ''}
        pragma busy_timeout = 0;
      `);
      this.#totalChangesStatement = this.#database.prepare('select total_changes() as count');
    } catch (error) {
      this.#database.close();
      throw error;
    }
    // Has the name of PostgreSQL's function, so that the same statement works on both databases.
    this.#database.function('pg_notify', (channel, payload) => {
      this.#notifications.push([String(channel), String(payload)]);
      return null;
    });
  }

  /** Executes a statement. @throws the error of `node:sqlite`, which has the result code as `errcode` */
  run(sql: string, parameters: readonly unknown[]): SqliteResult {
    try {
      const result = this.#retryWhileBusy(() =>
        this.#execute(sql, parameters as readonly SQLInputValue[]),
      );
      if (this.#database.isTransaction) {
        return { ...result, hasCommittedChanges: false, notifications: [] };
      }
      const notifications = this.#notifications;
      this.#notifications = [];
      const hasCommittedChanges = this.#countNewChanges() > 0;
      this.#shouldRetryWhenBusy ||= hasCommittedChanges;
      return { ...result, hasCommittedChanges, notifications };
    } catch (error) {
      if (!this.#database.isTransaction) {
        this.#discardPending();
      }
      throw error;
    }
  }

  /** Rolls back the open transaction. If the disk is full, SQLite may have done so already. */
  rollback(): void {
    if (this.#database.isTransaction) {
      this.#database.exec('rollback');
    }
    this.#discardPending();
  }

  /** Moves the WAL into the database and truncates it, unless another connection is reading. */
  checkpoint(): void {
    this.#database.exec('pragma wal_checkpoint(truncate)');
  }

  close(): void {
    this.#database.close();
  }

  #execute(sql: string, values: readonly SQLInputValue[]) {
    const { statement, returnsRows } = this.#prepare(sql);
    if (returnsRows) {
      return { rows: statement.all(...values), changes: 0, insertId: 0 };
    }
    const { changes, lastInsertRowid } = statement.run(...values);
    return { rows: [], changes, insertId: lastInsertRowid };
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
          this.#shouldRetryWhenBusy = this.#isReader;
          throw error;
        }
        sleepSync(BUSY_RETRY_MS);
      }
    }
  }

  #discardPending(): void {
    this.#notifications = [];
    this.#countNewChanges();
  }

  #countNewChanges(): number {
    const changes = Number(this.#totalChangesStatement.get()?.['count']);
    const newChanges = changes - this.#lastTotalChanges;
    this.#lastTotalChanges = changes;
    return newChanges;
  }
}

export function sleepSync(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
