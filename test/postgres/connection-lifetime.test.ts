import { Socket } from 'node:net';
import type pg from 'pg';
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { createPool } from '../../src/store/server.ts';

/** How long a connection lasts: a plan was right for the tables as they were, and servers vanish. */

const FIVE_MINUTES_MS = 5 * 60_000;

const HALF_A_MINUTE_MS = 30_000;

let pool: pg.Pool;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  pool = createPool(process.env['TEST_DATABASE_URL'] ?? '', () => undefined, false);
});

afterEach(async () => {
  await pool.end();
  vi.useRealTimers();
});

it('a connection that is never idle makes way for a new one after minutes, and not in the midst of its work', async () => {
  const connection = await pool.connect();
  await connection.query('begin');
  const first = await processOf(connection);

  vi.advanceTimersByTime(FIVE_MINUTES_MS);

  expect(await processOf(connection)).toBe(first);
  await connection.query('commit');
  connection.release();
  const next = await pool.connect();
  const second = await processOf(next);
  next.release();
  expect(second).not.toBe(first);
});

it('a connection that nobody uses asks every half minute whether its server is there', async () => {
  const keepAlive = vi.spyOn(Socket.prototype, 'setKeepAlive');
  onTestFinished(() => keepAlive.mockRestore());
  await pool.query('select 1');
  expect(keepAlive.mock.calls).toEqual([[true, HALF_A_MINUTE_MS]]);
});

/** The server's process for a connection. */
async function processOf(connection: pg.PoolClient): Promise<number> {
  const { rows } = await connection.query<{ pid: number }>('select pg_backend_pid() as pid');
  return rows[0]?.pid ?? 0;
}
