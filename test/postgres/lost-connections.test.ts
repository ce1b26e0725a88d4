import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { Kysely, PostgresDialect, sql } from 'kysely';
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { createPool } from '../../src/database/postgres.ts';
import { listenOnPostgres } from '../../src/database/postgres-notifications.ts';
import { withPreparedStatements } from '../../src/database/prepared-statements.ts';
import type { DatabaseSchema } from '../../src/database/schema.ts';
import { eventually } from '../helpers/eventually.ts';

/** The network to the server is cut: connections break without notice, and new ones reach another server. */

/** A query times out after this. */
const QUERY_TIMEOUT_MS = 35_000;

/** The interval and the timeout of the listening connection's heartbeat. */
const HEARTBEAT_MS = 2_000;
const GIVE_UP_MS = 20_000;

/** The error of a query that timed out. */
const TIMED_OUT = { kind: 'unavailable', cause: new Error('Query read timeout') };

let path: CutPath;
/** The URL of the server through the proxy. */
let url: URL;
let db: Kysely<DatabaseSchema>;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
  const server = process.env['TEST_DATABASE_URL'] ?? '';
  path = await CutPath.to(new URL(server));
  url = new URL(server);
  url.host = `127.0.0.1:${path.port}`;
  const pool = withPreparedStatements(
    createPool(url.href, () => undefined, false),
    () => undefined,
  );
  db = new Kysely<DatabaseSchema>({ dialect: new PostgresDialect({ pool }) });
});

afterEach(async () => {
  vi.useRealTimers();
  // First, because a pool does not end while a query waits for a response.
  await path.close();
  await db.destroy();
});

it('fails one query by timeout, and runs the next one', async () => {
  await ask(db);
  path.cut();

  const failing = expect(ask(db)).rejects.toMatchObject(TIMED_OUT);
  await path.swallowed();
  vi.advanceTimersByTime(QUERY_TIMEOUT_MS);
  await failing;

  expect(await ask(db)).toBe(1);
});

it('fails a transaction with the query that timed out, without waiting for its rollback', async () => {
  const transaction = db.transaction().execute(async (tx) => {
    await ask(tx);
    path.cut();
    await ask(tx);
  });
  const failing = expect(transaction).rejects.toMatchObject(TIMED_OUT);
  await path.swallowed();
  vi.advanceTimersByTime(QUERY_TIMEOUT_MS);
  await failing;

  expect(await ask(db)).toBe(1);
});

it('reconnects the listening connection, and reports since when notifications may be lost', async () => {
  const onMissedNotifications = vi.fn();
  const listener = {
    channels: { anything: () => undefined },
    onMissedNotifications,
    onError: () => undefined,
    clock: Date.now,
  };
  const listening = await listenOnPostgres(url.href, listener, () => undefined);
  onTestFinished(() => listening.close());
  const beforeMs = Date.now();
  path.cut();
  vi.advanceTimersByTime(HEARTBEAT_MS);
  expect(onMissedNotifications).not.toHaveBeenCalled();

  vi.advanceTimersByTime(GIVE_UP_MS);
  await eventually(() => expect(onMissedNotifications).toHaveBeenCalled());
  expect(onMissedNotifications.mock.calls[0]?.[0]).toBeLessThanOrEqual(beforeMs);
  expect(listening.isConnected).toBe(true);
});

async function ask(on: Kysely<DatabaseSchema>): Promise<number | undefined> {
  const { rows } = await sql<{ one: number }>`select ${1}::int as one`.execute(on);
  return rows[0]?.one;
}

/** A proxy to a server. Existing connections can be cut; new ones work. */
class CutPath {
  readonly port: number;
  readonly #server: Server;
  readonly #ends = new Set<Socket>();
  readonly #swallowed = Promise.withResolvers<void>();

  private constructor(server: Server, target: URL) {
    this.port = (server.address() as AddressInfo).port;
    this.#server = server;
    server.on('connection', (client) => {
      const upstream = connect(Number(target.port || 5432), target.hostname);
      client.pipe(upstream).pipe(client);
      for (const end of [client, upstream]) {
        this.#ends.add(end);
        end.on('error', () => undefined);
      }
    });
  }

  static async to(target: URL): Promise<CutPath> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new CutPath(server, target);
  }

  /** Drops everything sent on the existing connections. */
  cut(): void {
    for (const end of this.#ends) {
      end.unpipe();
      end.on('data', () => this.#swallowed.resolve()).resume();
    }
  }

  /** Resolves when something was dropped. */
  async swallowed(): Promise<void> {
    await this.#swallowed.promise;
  }

  async close(): Promise<void> {
    for (const end of this.#ends) {
      end.destroy();
    }
    this.#server.close();
    await once(this.#server, 'close');
  }
}
