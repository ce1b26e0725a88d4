import module from 'node:module';
import path from 'node:path';
import { type MessagePort, parentPort, Worker, workerData } from 'node:worker_threads';
import { resultCode, SqliteError } from './errors.ts';
import {
  pause,
  SqliteConnection,
  type SqliteConnectionOptions,
  type SqliteResult,
} from './sqlite-connection.ts';

type WorkerRequest =
  | { kind: 'run'; sql: string; parameters: readonly unknown[] }
  | { kind: 'rollback' | 'checkpoint' | 'close' };

type WorkerReply =
  | { result: SqliteResult | null }
  | { error: { message: string; errcode: number | null } };

/** Where a reply goes. */
interface Pending extends PromiseWithResolvers<SqliteResult | null> {
  sentAtMs: number;
}

/** Longer than a write waits for the lock of another process. */
const STUCK_AFTER_MS = 6_000;

/** After a commit that took at least this long, a full queue must not keep other processes from the lock. */
const SLOW_COMMIT_MS = 10;

/** The pause after a slow commit, as a share of the time that the commit took. */
const PAUSE_SHARE = 0.05;

/** Tells the thread that this file is its program. */
interface ThreadData {
  isSqliteThread: true;
  options: SqliteConnectionOptions;
}

/** A connection to SQLite in a thread of its own, so that a synced commit does not hold up the process. */
export class SqliteThread {
  readonly #worker: Worker;
  readonly #pending: Pending[] = [];
  #isClosed = false;

  /** @throws SqliteError if the file is not a database, or the disk fails */
  static async open(options: SqliteConnectionOptions): Promise<SqliteThread> {
    const thread = new SqliteThread(options);
    try {
      await thread.#reply();
    } catch (error) {
      await thread.#end();
      throw error;
    }
    return thread;
  }

  private constructor(options: SqliteConnectionOptions) {
    // An error that the worker does not reply with ends the process.
    this.#worker = new Worker(new URL('./sqlite-thread.ts', import.meta.url), {
      workerData: { isSqliteThread: true, options } satisfies ThreadData,
      env: compileCache(),
    });
    this.#worker.on('message', (reply: WorkerReply) => {
      const pending = this.#pending.shift();
      if ('error' in reply) {
        pending?.reject(new SqliteError(reply.error.message, reply.error.errcode));
      } else {
        pending?.resolve(reply.result);
      }
    });
    this.#worker.once('exit', () => {
      if (!this.#isClosed) {
        throw new Error('the thread that writes to SQLite has ended');
      }
    });
  }

  async run(sql: string, parameters: readonly unknown[]): Promise<SqliteResult> {
    return (await this.#send({ kind: 'run', sql, parameters })) as SqliteResult;
  }

  async rollback(): Promise<void> {
    await this.#send({ kind: 'rollback' });
  }

  async checkpoint(): Promise<void> {
    await this.#send({ kind: 'checkpoint' });
  }

  /** Whether a statement has not been executed for seconds, because the disk does not respond. */
  get isStuck(): boolean {
    const [oldest] = this.#pending;
    return oldest !== undefined && performance.now() - oldest.sentAtMs > STUCK_AFTER_MS;
  }

  /** Closes the connection after the statements that were sent. Later statements are rejected. */
  async close(): Promise<void> {
    const closed = this.#send({ kind: 'close' });
    this.#isClosed = true;
    await closed;
    await this.#end();
  }

  async #send(request: WorkerRequest): Promise<SqliteResult | null> {
    if (this.#isClosed) {
      throw new Error('the database is closed');
    }
    this.#worker.postMessage(request);
    return this.#reply();
  }

  #reply(): Promise<SqliteResult | null> {
    const pending = {
      ...Promise.withResolvers<SqliteResult | null>(),
      sentAtMs: performance.now(),
    };
    this.#pending.push(pending);
    return pending.promise;
  }

  async #end(): Promise<void> {
    this.#isClosed = true;
    await this.#worker.terminate();
  }
}

/** The compile cache of this thread, if it has one: without it, a thread needs 10 MB more to read TypeScript. */
function compileCache(): NodeJS.ProcessEnv {
  const folder = module.getCompileCacheDir();
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: path.dirname(folder) };
}

/** Runs in the thread: replies to each message in order, and first once it has opened the database. */
function executeRequests(port: MessagePort, options: SqliteConnectionOptions): void {
  let connection: SqliteConnection | null = null;

  function reply(work: () => WorkerReply): void {
    try {
      port.postMessage(work());
    } catch (error) {
      port.postMessage({
        error: { message: (error as Error).message, errcode: resultCode(error) },
      });
    }
  }

  reply(() => {
    connection = new SqliteConnection(options);
    return { result: null };
  });

  port.on('message', (request: WorkerRequest) => {
    const startedAtMs = performance.now();
    let hasWritten = false;
    reply(() => {
      if (request.kind !== 'run') {
        connection?.[request.kind]();
        return { result: null };
      }
      const result = connection?.run(request.sql, request.parameters) ?? null;
      hasWritten = result?.hasWritten ?? false;
      return { result };
    });
    const tookMs = performance.now() - startedAtMs;
    if (hasWritten && tookMs >= SLOW_COMMIT_MS) {
      pause(tookMs * PAUSE_SHARE);
    }
  });
}

const data = workerData as ThreadData | null;
if (parentPort !== null && data?.isSqliteThread) {
  executeRequests(parentPort, data.options);
}
