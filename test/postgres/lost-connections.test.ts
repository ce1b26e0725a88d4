import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { Kysely, PostgresDialect, sql } from 'kysely';
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { listenOnPostgres } from '../../src/database/notifications.ts';
import { createPool, prepareConnection } from '../../src/database/postgres.ts';
import { PostgresPool } from '../../src/database/postgres-pool.ts';
import type { DatabaseSchema } from '../../src/database/schema.ts';
import { eventually } from '../helpers/eventually.ts';

/** In these tests, existing connections to PostgreSQL stop working without an error, and new ones work. */

const QUERY_TIMEOUT_MS = 10_000;

const MAX_CONNECTIONS = 10;
const CONNECT_TIMEOUT_MS = 5_000;

/** The connection for LISTEN sends heartbeats, and reconnects after a timeout. */
const HEARTBEAT_INTERVAL_MS = 2_000;
const HEARTBEAT_TIMEOUT_MS = 5_000;

const QUERY_TIMEOUT_ERROR = {
  code: 'database_unavailable',
  cause: new Error('Query read timeout'),
};

let proxy: InterruptibleProxy;
let url: URL;
let db: Kysely<DatabaseSchema>;

beforeEach(async () => {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'],
    shouldAdvanceTime: true,
  });
  const server = process.env['TEST_DATABASE_URL'] ?? '';
  proxy = await InterruptibleProxy.start(new URL(server));
  url = new URL(server);
  url.host = `127.0.0.1:${proxy.port}`;
  const pool = new PostgresPool(
    createPool(url.href, () => undefined, 'service'),
    {
      checkConnection: (client) => prepareConnection(client, 'service'),
      reportError: () => undefined,
      shouldPrepare: true,
    },
  );
  db = new Kysely<DatabaseSchema>({ dialect: new PostgresDialect({ pool }) });
});

afterEach(async () => {
  vi.useRealTimers();
  // The pool waits for its pending queries, so the proxy must end their connections first.
  await proxy.close();
  await db.destroy();
});

it('uses none of its other connections after one query timed out', async () => {
  // Opens a second connection, which is idle when the first one fails.
  await Promise.all([runQuery(db), runQuery(db)]);
  proxy.interruptConnections();

  const failure = expect(runQuery(db)).rejects.toMatchObject(QUERY_TIMEOUT_ERROR);
  await proxy.waitForDroppedData();
  vi.advanceTimersByTime(QUERY_TIMEOUT_MS);
  await failure;

  expect(await Promise.all([runQuery(db), runQuery(db)])).toEqual([1, 1]);
});

it('waits for a free connection for at most five seconds, and keeps the busy ones', async () => {
  const canEnd = Promise.withResolvers<void>();
  let holderCount = 0;
  const holders = Array.from({ length: MAX_CONNECTIONS }, () =>
    db.transaction().execute(async (tx) => {
      await runQuery(tx);
      holderCount += 1;
      await canEnd.promise;
      return runQuery(tx);
    }),
  );
  await eventually(() => expect(holderCount).toBe(MAX_CONNECTIONS));
  const failure = expect(runQuery(db)).rejects.toMatchObject({ code: 'database_unavailable' });
  vi.advanceTimersByTime(CONNECT_TIMEOUT_MS);
  await failure;

  canEnd.resolve();
  expect(await Promise.all(holders)).toEqual(holders.map(() => 1));
  await runQuery(db);
  expect(proxy.connectionCount).toBe(MAX_CONNECTIONS);
});

it('lets the server end a transaction whose client has vanished, because its locks block others', async () => {
  const { rows } = await sql`show idle_in_transaction_session_timeout`.execute(db);
  expect(rows).toEqual([{ idle_in_transaction_session_timeout: '10s' }]);
});

it('reconnects the connection for LISTEN, and reports since when notifications may have been missed', async () => {
  const onMissedNotifications = vi.fn();
  const onDisconnect = vi.fn();
  const listener = {
    channels: { anything: () => undefined },
    onMissedNotifications,
    onError: () => undefined,
    clock: Date.now,
  };
  const listenConnection = await listenOnPostgres(url.href, listener, {
    onConnectionError: () => undefined,
    onDisconnect,
  });
  onTestFinished(() => listenConnection.close());
  const interruptedAtMs = Date.now();
  proxy.interruptConnections();
  vi.advanceTimersByTime(HEARTBEAT_INTERVAL_MS);
  expect(listenConnection.isConnected).toBe(true);
  // At the time of the next heartbeat, the last one has no response yet.
  vi.advanceTimersByTime(HEARTBEAT_INTERVAL_MS);
  expect(listenConnection.isConnected).toBe(false);
  expect(onMissedNotifications).not.toHaveBeenCalled();

  vi.advanceTimersByTime(HEARTBEAT_TIMEOUT_MS);
  await eventually(() => expect(onMissedNotifications).toHaveBeenCalled());
  expect(onDisconnect).toHaveBeenCalledBefore(onMissedNotifications);
  expect(onMissedNotifications.mock.calls[0]?.[0]).toBeLessThanOrEqual(interruptedAtMs);
  expect(listenConnection.isConnected).toBe(true);
});

async function runQuery(connection: Kysely<DatabaseSchema>): Promise<number | undefined> {
  const { rows } = await sql<{ one: number }>`select ${1}::int as one`.execute(connection);
  return rows[0]?.one;
}

/** A TCP proxy that can stop forwarding on its existing connections. */
class InterruptibleProxy {
  readonly port: number;
  connectionCount = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #droppedData = Promise.withResolvers<void>();

  private constructor(server: Server, target: URL) {
    this.port = (server.address() as AddressInfo).port;
    this.#server = server;
    server.on('connection', (client) => {
      this.connectionCount += 1;
      const upstream = connect(Number(target.port || 5432), target.hostname);
      client.pipe(upstream).pipe(client);
      for (const socket of [client, upstream]) {
        this.#sockets.add(socket);
        socket.on('error', () => undefined);
      }
    });
  }

  static async start(target: URL): Promise<InterruptibleProxy> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new InterruptibleProxy(server, target);
  }

  interruptConnections(): void {
    for (const socket of this.#sockets) {
      socket.unpipe();
      socket.on('data', () => this.#droppedData.resolve()).resume();
    }
  }

  async waitForDroppedData(): Promise<void> {
    await this.#droppedData.promise;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) {
      socket.destroy();
    }
    this.#server.close();
    await once(this.#server, 'close');
  }
}
