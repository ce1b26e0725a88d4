import { parentPort, workerData } from 'node:worker_threads';
import { pause, SqliteConnection } from './sqlite-connection.ts';
import { resultCode } from './sqlite-errors.ts';
import type { WorkerReply, WorkerRequest } from './sqlite-thread.ts';

// The thread that writes to SQLite. It replies to each message in order, and first once it has opened the database.

/** After a commit that took at least this long, a full queue must not keep other processes from the lock. */
const SLOW_COMMIT_MS = 10;

/** The pause after a slow commit, as a share of the time that the commit took. */
const PAUSE_SHARE = 0.05;

if (parentPort === null) {
  throw new Error('this file is the program of a worker thread');
}
const port = parentPort;
let connection: SqliteConnection | null = null;

function reply(work: () => WorkerReply): void {
  try {
    port.postMessage(work());
  } catch (error) {
    port.postMessage({ error: { message: (error as Error).message, errcode: resultCode(error) } });
  }
}

reply(() => {
  connection = new SqliteConnection(workerData);
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
