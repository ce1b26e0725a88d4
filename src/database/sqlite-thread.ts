import module from 'node:module';
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import type { SqliteConnectionOptions, SqliteResult } from './sqlite-connection.ts';
import { SqliteError } from './sqlite-errors.ts';

export type WorkerRequest =
  | { kind: 'run'; sql: string; parameters: readonly unknown[] }
  | { kind: 'rollback' | 'checkpoint' | 'close' };

export type WorkerReply =
  | { result: SqliteResult | null }
  | { error: { message: string; errcode: number | null } };

type Pending = PromiseWithResolvers<SqliteResult | null>;

/** A connection to SQLite in a thread of its own, so that a synced commit does not hold up the process. */
export class SqliteThread {
  readonly #worker: Worker;
  readonly #pending: Pending[] = [];

  /** @throws SqliteError if the file is not a database, or the disk fails */
  static async open(options: SqliteConnectionOptions): Promise<SqliteThread> {
    const thread = new SqliteThread(options);
    try {
      await thread.#reply();
    } catch (error) {
      await thread.#worker.terminate();
      throw error;
    }
    return thread;
  }

  private constructor(options: SqliteConnectionOptions) {
    // An error that the worker does not reply with ends the process.
    this.#worker = new Worker(new URL('./sqlite-worker.ts', import.meta.url), {
      workerData: options,
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

  async close(): Promise<void> {
    await this.#send({ kind: 'close' });
    await this.#worker.terminate();
  }

  #send(request: WorkerRequest): Promise<SqliteResult | null> {
    this.#worker.postMessage(request);
    return this.#reply();
  }

  #reply(): Promise<SqliteResult | null> {
    const pending = Promise.withResolvers<SqliteResult | null>();
    this.#pending.push(pending);
    return pending.promise;
  }
}

/** The compile cache of this thread, if it has one: without it, a thread needs 10 MB more to read TypeScript. */
function compileCache(): NodeJS.ProcessEnv {
  const folder = module.getCompileCacheDir();
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: path.dirname(folder) };
}
