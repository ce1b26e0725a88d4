import { EventEmitter } from 'node:events';
import type { PostgresPoolClient } from 'kysely';
import pg from 'pg';
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { PostgresPool } from '../../../src/database/postgres-pool.ts';
import { DatabaseUnavailableError } from '../../../src/errors.ts';

// test/postgres/failover.test.ts and test/postgres/lost-connections.test.ts cover the pool with a real server.

const CONNECT_TIMEOUT_MS = 5_000;
const MIN_WAIT_MS = 1_000;
const MAX_WAITING = 5_000;

const SERVER_DOWN = new Error('connect ECONNREFUSED');

beforeEach(() => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
});

it('tries one connection at a time, with growing pauses, while the server is unreachable', async () => {
  const { pool, server } = createFakes();
  server.isDown = true;
  const queries = Array.from({ length: 50 }, () => pool.connect());
  await vi.advanceTimersByTimeAsync(0);
  // Each query fails to connect at most once. Then only one attempt runs at a time.
  const attemptsOfQueries = server.attempts;
  expect(attemptsOfQueries).toBeLessThanOrEqual(51);
  for (const [index, pauseMs] of [100, 200, 400, 800, 1_000, 1_000].entries()) {
    await vi.advanceTimersByTimeAsync(pauseMs - 1);
    expect(server.attempts).toBe(attemptsOfQueries + index);
    await vi.advanceTimersByTimeAsync(1);
  }
  server.isDown = false;
  await vi.advanceTimersByTimeAsync(1_000);
  expect(await Promise.all(queries)).toHaveLength(50);
});

it('rejects queries when the server was unreachable for five seconds, and later ones after one second', async () => {
  const { pool, server } = createFakes();
  server.isDown = true;
  const early = [trackRejection(pool.connect())];
  await vi.advanceTimersByTimeAsync(CONNECT_TIMEOUT_MS / 2);
  early.push(trackRejection(pool.connect()));
  await vi.advanceTimersByTimeAsync(CONNECT_TIMEOUT_MS / 2 - 1);
  expect(early.map(({ error }) => error)).toEqual([null, null]);
  await vi.advanceTimersByTimeAsync(1);
  for (const { error } of early) {
    expect(error).toBeInstanceOf(DatabaseUnavailableError);
    expect(error).toMatchObject({ cause: SERVER_DOWN });
  }
  expect(pool.isReachable).toBe(false);

  const late = trackRejection(pool.connect());
  await vi.advanceTimersByTimeAsync(MIN_WAIT_MS - 1);
  expect(late.error).toBeNull();
  await vi.advanceTimersByTimeAsync(1);
  expect(late.error).toBeInstanceOf(DatabaseUnavailableError);

  server.isDown = false;
  const recovered = pool.connect();
  await vi.advanceTimersByTimeAsync(MIN_WAIT_MS);
  expect(await recovered).toBeDefined();
});

it('closes all idle connections after a failure, and those in use when they are released', async () => {
  const { pool, server } = createFakes();
  const [failed, busy, idle] = await Promise.all([pool.connect(), pool.connect(), pool.connect()]);
  idle.release();
  expect(server.closedCount).toBe(0);
  server.queryError = Object.assign(new pg.DatabaseError('read-only', 0, 'error'), {
    code: '25006',
  });
  await expect(query(failed)).rejects.toThrow(DatabaseUnavailableError);
  await vi.advanceTimersByTimeAsync(0);
  expect(server.closedCount).toBe(1);

  // A late failure of an earlier connection says nothing about the new ones.
  const fresh = await pool.connect();
  await expect(query(busy)).rejects.toThrow(DatabaseUnavailableError);
  fresh.release();
  expect(server.closedCount).toBe(1);
  failed.release();
  busy.release();
  expect(server.closedCount).toBe(3);
});

it('keeps its connections if they are only busy', async () => {
  const { pool, server } = createFakes();
  const connection = await pool.connect();
  server.isBusy = true;
  await expect(pool.connect()).rejects.toThrow(DatabaseUnavailableError);
  expect(pool.isReachable).toBe(true);
  connection.release();
  expect(server.closedCount).toBe(0);
});

it('rejects a query at once if 5,000 others wait', async () => {
  const { pool } = createFakes();
  const waiting = Array.from({ length: MAX_WAITING }, () => pool.connect());
  await expect(pool.connect()).rejects.toThrow(DatabaseUnavailableError);
  await vi.advanceTimersByTimeAsync(0);
  expect(await Promise.all(waiting)).toHaveLength(MAX_WAITING);
  expect(await pool.connect()).toBeDefined();
});

function query(connection: PostgresPoolClient): Promise<unknown> {
  return connection.query('insert', []);
}

function trackRejection(promise: Promise<unknown>) {
  const tracked: { error: unknown } = { error: null };
  promise.catch((error: unknown) => {
    tracked.error = error;
  });
  return tracked;
}

function createFakes() {
  const server = new FakePool();
  const pool = new PostgresPool(server as unknown as pg.Pool, {
    checkConnection: async () => undefined,
    reportError: () => undefined,
    shouldPrepare: true,
  });
  return { pool, server };
}

/** A pool like `pg.Pool` without a limit. */
class FakePool extends EventEmitter {
  readonly ending = false;
  isDown = false;
  isBusy = false;
  attempts = 0;
  closedCount = 0;
  queryError: Error | null = null;
  readonly #idle: object[] = [];

  async connect(): Promise<object> {
    if (this.isBusy) {
      throw new Error('timeout exceeded when trying to connect');
    }
    const idleClient = this.#idle.pop();
    if (idleClient !== undefined) {
      return idleClient;
    }
    this.attempts += 1;
    if (this.isDown) {
      throw SERVER_DOWN;
    }
    const client = {
      query: async () => {
        throw this.queryError;
      },
      release: (shouldClose = false) => {
        if (shouldClose) {
          this.closedCount += 1;
        } else {
          this.#idle.push(client);
        }
      },
    };
    return client;
  }
}
