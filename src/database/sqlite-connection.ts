import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { isSqliteBusy } from './errors.ts';

/** Pages of 4 KB in the WAL before a checkpoint: 16 MB. Invoices change mostly the same pages. */
const CHECKPOINT_PAGES = 4_000;

/** The WAL file is cut back to this size after a checkpoint. */
const MAX_WAL_BYTES = 16 * 1024 * 1024;

const CACHE_KB = 16_000;

/** Closing the database, and recovering it after a crash, lock it for as long as the disk takes. */
const OPEN_TIMEOUT_MS = 5_000;

/** How often a statement is retried while another process has the lock. SQLite's own busy handler retries every 100 ms. */
const BUSY_RETRY_MS = 2;

/** The service has fewer statements than this. Texts that differ each time must not fill the memory. */
const MAX_STATEMENTS = 300;

/** A message of `pg_notify`. */
export type Notification = readonly [channel: string, payload: string];

export interface SqliteResult {
  rows: unknown[];
  changes: number | bigint;
  insertId: number | bigint;
  /** Whether this statement has committed changes, so that the disk is known to work. */
  hasWritten: boolean;
  /** The notifications of the transaction that this statement has committed. */
  notifications: readonly Notification[];
}

export interface SqliteConnectionOptions {
  file: string;
  mode: 'read' | 'write' | 'switch to WAL';
  /** How long a statement waits for the lock of another process. It blocks the thread. */
  busyTimeoutMs: number;
}

/** A connection to SQLite that keeps its prepared statements. A commit is on the disk when it returns. */
export class SqliteConnection {
  readonly #database: DatabaseSync;
  readonly #busyTimeoutMs: number;
  readonly #statements = new Map<string, PreparedStatement>();
  readonly #totalChanges: StatementSync;
  #notifications: Notification[] = [];
  /** Rows that were changed until the last commit or rollback. */
  #changesSeen = 0;
  /** Whether statements wait for the lock of another process. */
  #isPatient = true;
  readonly #isReader: boolean;

  /** @throws Error if the file is not a database, or the disk fails */
  constructor({ file, mode, busyTimeoutMs }: SqliteConnectionOptions) {
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#isReader = mode === 'read';
    this.#database = new DatabaseSync(file, { timeout: OPEN_TIMEOUT_MS });
    try {
      this.#database.exec(`
        pragma synchronous = full;
        pragma foreign_keys = on;
        pragma wal_autocheckpoint = ${CHECKPOINT_PAGES};
        pragma cache_size = -${CACHE_KB};
        pragma journal_size_limit = ${MAX_WAL_BYTES};
        ${mode === 'switch to WAL' ? 'pragma journal_mode = wal;' : ''}
        -- Fails if the file is not a database.
        select count(*) from sqlite_schema;
        ${this.#isReader ? 'pragma query_only = on;' : ''}
        pragma busy_timeout = 0;
      `);
      this.#totalChanges = this.#database.prepare('select total_changes() as count');
    } catch (error) {
      this.#database.close();
      throw error;
    }
    // It has the name of PostgreSQL's function, so that both databases take the same statement.
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
        return { ...result, hasWritten: false, notifications: [] };
      }
      const notifications = this.#notifications;
      this.#notifications = [];
      const hasWritten = this.#countChanges() > 0;
      this.#isPatient ||= hasWritten;
      return { ...result, hasWritten, notifications };
    } catch (error) {
      if (!this.#database.isTransaction) {
        this.#discardPending();
      }
      throw error;
    }
  }

  /** Undoes the open transaction. SQLite has done so by itself if the disk is full. */
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

  #prepare(sql: string): PreparedStatement {
    const known = this.#statements.get(sql);
    if (known !== undefined) {
      return known;
    }
    const statement = this.#database.prepare(sql);
    const prepared = { statement, returnsRows: statement.columns().length > 0 };
    if (this.#statements.size < MAX_STATEMENTS) {
      this.#statements.set(sql, prepared);
    }
    return prepared;
  }

  /** Blocks the thread while it waits. */
  #retryWhileBusy<T>(execute: () => T): T {
    const deadlineMs = performance.now() + this.#busyTimeoutMs;
    for (;;) {
      try {
        return execute();
      } catch (error) {
        if (!isSqliteBusy(error)) {
          throw error;
        }
        if (!this.#isPatient || performance.now() > deadlineMs) {
          // Later writes wait for this thread, so each of them tries once until a write succeeds.
          this.#isPatient = this.#isReader;
          throw error;
        }
        pause(BUSY_RETRY_MS);
      }
    }
  }

  /** Discards the notifications and the count of changes of a transaction that was rolled back. */
  #discardPending(): void {
    this.#notifications = [];
    this.#countChanges();
  }

  /** Returns how many rows were changed since the last call. */
  #countChanges(): number {
    const changes = Number(this.#totalChanges.get()?.['count']);
    const more = changes - this.#changesSeen;
    this.#changesSeen = changes;
    return more;
  }
}

/** Blocks the thread. */
export function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

interface PreparedStatement {
  statement: StatementSync;
  returnsRows: boolean;
}
