import { type MessagePort, parentPort, Worker, workerData } from 'node:worker_threads';
import { createWorkerEnvironment } from '../worker-environment.ts';
import { sqliteResultCode } from './errors.ts';
import {
  SqliteConnection,
  type SqliteConnectionOptions,
  type SqliteResult,
  sleepSync,
} from './sqlite-connection.ts';

type WorkerRequest =
  | { kind: 'open'; options: SqliteConnectionOptions }
  | { kind: 'run'; sql: string; parameters: readonly unknown[] }
  | { kind: 'rollback' | 'close' };

type WorkerReply =
  | { result: SqliteResult | null }
  | { error: { message: string; errcode: number | null } };

/** A connection to SQLite in its own thread, so that waiting for the disk does not block the event loop. */
export class SqliteWorker {
  readonly #worker: Worker;
  readonly #pending: (PromiseWithResolvers<SqliteResult | null> & { sentAtMs: number })[] = [];
  #isClosed = false;

  static async open(options: SqliteConnectionOptions): Promise<SqliteWorker> {
    const worker = new SqliteWorker();
    try {
      await worker.#send({ kind: 'open', options });
    } catch (error) {
      await worker.close();
      throw error;
    }
    return worker;
  }

  private constructor() {
    // The worker has no 'error' listener, so that a bug in it ends the process.
    this.#worker = new Worker(new URL('./sqlite-worker.ts', import.meta.url), {
      workerData: SQLITE_WORKER_MARK,
      env: createWorkerEnvironment(),
    });
    this.#worker.on('message', (reply: WorkerReply) => {
      const request = this.#pending.shift();
      if ('error' in reply) {
        const { message, errcode } = reply.error;
        request?.reject(Object.assign(new Error(message), { errcode }));
      } else {
        request?.resolve(reply.result);
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

  /** True if a statement takes longer than any write waits for a lock, because the disk does not respond. */
  get isStuck(): boolean {
    const [oldest] = this.#pending;
    return oldest !== undefined && performance.now() - oldest.sentAtMs > 6_000;
  }

  /** Closes the connection after all pending statements. Rejects later statements. */
  async close(): Promise<void> {
    const closeReply = this.#send({ kind: 'close' });
    this.#isClosed = true;
    await closeReply;
    await this.#worker.terminate();
  }

  async #send(request: WorkerRequest): Promise<SqliteResult | null> {
    if (this.#isClosed) {
      throw new Error('the database is closed');
    }
    const reply = Promise.withResolvers<SqliteResult | null>();
    this.#pending.push({ ...reply, sentAtMs: performance.now() });
    this.#worker.postMessage(request);
    return reply.promise;
  }
}

/** Runs in the worker thread. Sends one reply for each request, in order. */
function runWorker(port: MessagePort): void {
  let connection: SqliteConnection | null = null;
  port.on('message', (request: WorkerRequest) => {
    const startedAtMs = performance.now();
    let result: SqliteResult | null = null;
    try {
      if (request.kind === 'open') {
        connection = new SqliteConnection(request.options);
      } else if (request.kind === 'run') {
        result = connection?.run(request.sql, request.parameters) ?? null;
      } else if (request.kind === 'rollback') {
        connection?.rollback();
      } else {
        connection?.close();
      }
      port.postMessage({ result } satisfies WorkerReply);
    } catch (error) {
      const { message } = error as Error;
      const errcode = sqliteResultCode(error);
      port.postMessage({ error: { message, errcode } } satisfies WorkerReply);
    }
    const tookMs = performance.now() - startedAtMs;
    if (result?.hasCommittedChanges && tookMs >= 10) {
      // Without pauses, commands could not take the lock while the service writes.
      sleepSync(tookMs / 20);
    }
  });
}

/** Distinguishes this thread from the workers of tests, which import this file too. */
const SQLITE_WORKER_MARK = 'nutpost SQLite worker';

if (parentPort !== null && workerData === SQLITE_WORKER_MARK) {
  runWorker(parentPort);
}
