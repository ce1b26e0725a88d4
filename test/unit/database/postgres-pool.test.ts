import type pg from 'pg';
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { PostgresPool } from '../../../src/database/postgres-pool.ts';
import { DatabaseUnavailableError } from '../../../src/errors.ts';

// test/postgres/lost-connections.test.ts and test/postgres/failover.test.ts cover the pool with a real server.

const CONNECT_TIMEOUT_MS = 5_000;
const MIN_WAIT_MS = 1_000;
const MAX_WAITING = 5_000;

const SERVER_DOWN = new Error('connect ECONNREFUSED');

beforeEach(() => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
});

it('tries one connection at a time, with growing pauses, while the server is unreachable', async () => {
  const { pool, server } = createPool();
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
  const { pool, server } = createPool();
  server.isDown = true;
  const early = [findRejection(pool.connect())];
  await vi.advanceTimersByTimeAsync(CONNECT_TIMEOUT_MS / 2);
  early.push(findRejection(pool.connect()));
  await vi.advanceTimersByTimeAsync(CONNECT_TIMEOUT_MS / 2 - 1);
  expect(early.map(({ error }) => error)).toEqual([null, null]);
  await vi.advanceTimersByTimeAsync(1);
  for (const { error } of early) {
    expect(error).toBeInstanceOf(DatabaseUnavailableError);
    expect(error).toMatchObject({ cause: SERVER_DOWN });
  }

  const late = findRejection(pool.connect());
  await vi.advanceTimersByTimeAsync(MIN_WAIT_MS - 1);
  expect(late.error).toBeNull();
  await vi.advanceTimersByTimeAsync(1);
  expect(late.error).toBeInstanceOf(DatabaseUnavailableError);
});

it('rejects a query at once if 5,000 others wait', async () => {
  const { pool } = createPool();
  const waiting = Array.from({ length: MAX_WAITING }, () => pool.connect());
  await expect(pool.connect()).rejects.toThrow(DatabaseUnavailableError);
  expect(await Promise.all(waiting)).toHaveLength(MAX_WAITING);
  expect(await pool.connect()).toBeDefined();
});

function createPool() {
  const server = { isDown: false, attempts: 0 };
  const connect = async () => {
    server.attempts += 1;
    if (server.isDown) {
      throw SERVER_DOWN;
    }
    return { release: () => undefined };
  };
  const pool = new PostgresPool({ connect, ending: false } as unknown as pg.Pool, {
    checkConnection: async () => undefined,
    reportError: () => undefined,
    shouldPrepare: true,
  });
  return { pool, server };
}

function findRejection(promise: Promise<unknown>) {
  const found: { error: unknown } = { error: null };
  promise.catch((error: unknown) => {
    found.error = error;
  });
  return found;
}
