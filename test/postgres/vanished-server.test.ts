import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { Kysely, PostgresDialect, sql } from 'kysely';
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { listenOnServer } from '../../src/database/listen.ts';
import { createPool } from '../../src/database/postgres.ts';
import { preparingPool } from '../../src/database/prepared-statements.ts';
import type { Schema } from '../../src/database/schema.ts';
import { eventually } from '../helpers/eventually.ts';

/** A server vanishes without a word, as one whose network is cut does, and another takes its place. */

/** After that a query is given up. */
const QUERY_TIMEOUT_MS = 35_000;

/** Who listens asks so often whether anybody is there, and gives a question up after that. */
const HEARTBEAT_MS = 2_000;
const GIVE_UP_MS = 20_000;

/** The error of a query that is given up. */
const TIMED_OUT = { nature: 'unavailable', cause: new Error('Query read timeout') };

let path: CutPath;
/** Of the server, by that path. */
let url: URL;
let db: Kysely<Schema>;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
  const server = process.env['TEST_DATABASE_URL'] ?? '';
  path = await CutPath.to(new URL(server));
  url = new URL(server);
  url.host = `127.0.0.1:${path.port}`;
  const pool = preparingPool(
    createPool(url.href, () => undefined, false),
    () => undefined,
  );
  db = new Kysely<Schema>({ dialect: new PostgresDialect({ pool }) });
});

afterEach(async () => {
  vi.useRealTimers();
  // First: a pool does not end for as long as somebody waits for an answer.
  await path.close();
  await db.destroy();
});

it('one query waits for an answer in vain, and the next has one', async () => {
  await ask(db);
  path.cut();

  const failing = expect(ask(db)).rejects.toMatchObject(TIMED_OUT);
  await path.swallowed();
  vi.advanceTimersByTime(QUERY_TIMEOUT_MS);
  await failing;

  expect(await ask(db)).toBe(1);
});

it('a transaction fails with the query that waited in vain, and does not wait for its rollback', async () => {
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

it('who listens connects again, and learns since when notifications may be lost', async () => {
  const onGap = vi.fn();
  const listener = {
    channels: { anything: () => undefined },
    onGap,
    onError: () => undefined,
    clock: Date.now,
  };
  const listening = await listenOnServer(url.href, listener, () => undefined);
  onTestFinished(() => listening.close());
  const beforeMs = Date.now();
  path.cut();
  vi.advanceTimersByTime(HEARTBEAT_MS);
  expect(onGap).not.toHaveBeenCalled();

  vi.advanceTimersByTime(GIVE_UP_MS);
  await eventually(() => expect(onGap).toHaveBeenCalled());
  expect(onGap.mock.calls[0]?.[0]).toBeLessThanOrEqual(beforeMs);
  expect(listening.isConnected).toBe(true);
});

async function ask(on: Kysely<Schema>): Promise<number | undefined> {
  const { rows } = await sql<{ one: number }>`select ${1}::int as one`.execute(on);
  return rows[0]?.one;
}

/** A way to a server that can be cut, but for new connections. */
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

  /** What is sent on the connections of now is lost. */
  cut(): void {
    for (const end of this.#ends) {
      end.unpipe();
      end.on('data', () => this.#swallowed.resolve()).resume();
    }
  }

  /** Resolves once something was lost. */
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
