import { parentPort, workerData } from 'node:worker_threads';
import { SqliteConnection } from './sqlite-connection.ts';
import { resultCode } from './sqlite-errors.ts';
import type { WorkerReply, WorkerRequest } from './sqlite-thread.ts';

// The thread that writes to SQLite. It replies to each message in order, and first once it has opened the database.

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
  reply(() => {
    switch (request.kind) {
      case 'run':
        return { result: connection?.run(request.sql, request.parameters) ?? null };
      default:
        connection?.[request.kind]();
        return { result: null };
    }
  });
});
