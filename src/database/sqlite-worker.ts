import { type MessagePort, parentPort, Worker, workerData } from 'node:worker_threads';
import { createWorkerEnvironment } from '../worker-environment.ts';
import { SqliteError, sqliteResultCode } from './errors.ts';
import { SLOW_COMMIT_MS, SLOW_COMMIT_PAUSE_FRACTION, STUCK_AFTER_MS } from './limits.ts';
import {
  SqliteConnection,
  type SqliteConnectionOptions,
  type SqliteResult,
  sleepSync,
} from './sqlite-connection.ts';

type WorkerRequest =
  | { kind: 'run'; sql: string; parameters: readonly unknown[] }
  | { kind: 'rollback' | 'checkpoint' | 'close' };

type WorkerReply =
  | { result: SqliteResult | null }
  | { error: { message: string; errcode: number | null } };

interface PendingReply extends PromiseWithResolvers<SqliteResult | null> {
  sentAtMs: number;
}

/** `isSqliteWorker` tells this worker from the worker threads of tests that import this file. */
type SqliteWorkerData = { isSqliteWorker: true; options: SqliteConnectionOptions };

/** A connection to SQLite in its own thread, so that waiting for the disk does not block the event loop. */
export class SqliteWorker {
  readonly #worker: Worker;
  readonly #pending: PendingReply[] = [];
  #isClosed = false;

  /** @throws SqliteError if the file is not a database, or the disk fails */
  static async open(options: SqliteConnectionOptions): Promise<SqliteWorker> {
    const worker = new SqliteWorker(options);
    try {
      await worker.#waitForReply();
    } catch (error) {
      await worker.#terminate();
      throw error;
    }
    return worker;
  }

  private constructor(options: SqliteConnectionOptions) {
    // Without an 'error' listener, a bug in the worker ends the process.
    this.#worker = new Worker(new URL('./sqlite-worker.ts', import.meta.url), {
      workerData: { isSqliteWorker: true, options } satisfies SqliteWorkerData,
      env: createWorkerEnvironment(),
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
        throw new Error('the SQLite worker thread has exited');
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

  /** Whether a statement has been pending for so long that the disk probably does not respond. */
  get isStuck(): boolean {
    const [oldest] = this.#pending;
    return oldest !== undefined && performance.now() - oldest.sentAtMs > STUCK_AFTER_MS;
  }

  /** Closes the connection after all pending statements. Rejects later statements. */
  async close(): Promise<void> {
    const closeReply = this.#send({ kind: 'close' });
    this.#isClosed = true;
    await closeReply;
    await this.#terminate();
  }

  async #send(request: WorkerRequest): Promise<SqliteResult | null> {
    if (this.#isClosed) {
      throw new Error('the database is closed');
    }
    this.#worker.postMessage(request);
    return this.#waitForReply();
  }

  #waitForReply(): Promise<SqliteResult | null> {
    const pending = {
      ...Promise.withResolvers<SqliteResult | null>(),
      sentAtMs: performance.now(),
    };
    this.#pending.push(pending);
    return pending.promise;
  }

  async #terminate(): Promise<void> {
    this.#isClosed = true;
    await this.#worker.terminate();
  }
}

/** Runs in the worker thread. Sends one reply when the database is open, and then one for each request, in order. */
function runWorker(port: MessagePort, options: SqliteConnectionOptions): void {
  let connection: SqliteConnection | null = null;

  function reply(work: () => WorkerReply): void {
    try {
      port.postMessage(work());
    } catch (error) {
      port.postMessage({
        error: { message: (error as Error).message, errcode: sqliteResultCode(error) },
      });
    }
  }

  reply(() => {
    connection = new SqliteConnection(options);
    return { result: null };
  });

  port.on('message', (request: WorkerRequest) => {
    const startedAtMs = performance.now();
    let hasCommittedChanges = false;
    reply(() => {
      if (request.kind !== 'run') {
        connection?.[request.kind]();
        return { result: null };
      }
      const result = connection?.run(request.sql, request.parameters) ?? null;
      hasCommittedChanges = result?.hasCommittedChanges ?? false;
      return { result };
    });
    const tookMs = performance.now() - startedAtMs;
    if (hasCommittedChanges && tookMs >= SLOW_COMMIT_MS) {
      sleepSync(tookMs * SLOW_COMMIT_PAUSE_FRACTION);
    }
  });
}

const data = workerData as SqliteWorkerData | null;
if (parentPort !== null && data?.isSqliteWorker) {
  runWorker(parentPort, data.options);
}
