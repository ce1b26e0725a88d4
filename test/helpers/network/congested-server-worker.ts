import { createServer, type Socket } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';

/** Listens on 127.0.0.1 with a short queue, and accepts no connection until the flag is set. */
const isUncongested = workerData as Int32Array<SharedArrayBuffer>;

const HTTP_RESPONSE = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}';
const POSTGRES_FIELDS = 'SFATAL\0C28P01\0Mwrong password\0\0';

function respond(connection: Socket): void {
  connection.on('error', () => undefined);
  connection.on('data', (data) => {
    const isHttp = data.toString('latin1').startsWith('GET ');
    connection.end(isHttp ? HTTP_RESPONSE : buildPostgresError());
  });
}

function buildPostgresError(): Buffer {
  const header = Buffer.from('E\0\0\0\0');
  header.writeUInt32BE(POSTGRES_FIELDS.length + 4, 1);
  return Buffer.concat([header, Buffer.from(POSTGRES_FIELDS)]);
}

const server = createServer(respond);
server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
  parentPort?.postMessage(server.address());
  // A blocked event loop accepts no connection. The message is sent before.
  setImmediate(() => Atomics.wait(isUncongested, 0, 0));
});
