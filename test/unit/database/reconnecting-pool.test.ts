import { EventEmitter } from 'node:events';
import { setImmediate as nextEventLoopTurn } from 'node:timers/promises';
import type pg from 'pg';
import { expect, it } from 'vitest';
import { ReconnectingPool } from '../../../src/database/reconnecting-pool.ts';
import { DatabaseUnavailableError } from '../../../src/errors.ts';

// test/postgres/failover.test.ts and test/postgres/lost-connections.test.ts cover the pool with a real server.

const CONNECT_TIMEOUT_MS = 5_000;
const MIN_WAIT_MS = 1_000;
const MAX_RETRY_DELAY_MS = 1_000;
const MAX_WAITING = 5_000;

const SERVER_DOWN = new Error('connect ECONNREFUSED');

it('tries one connection at a time, with growing delays, while the server is unreachable', async () => {
  const { pool, server, timers } = createFakes();
  server.isDown = true;
  const queries = Array.from({ length: 50 }, () => pool.connect());
  await settle();
  // Each query fails to connect at most once. Then only one attempt runs at a time.
  const attemptsOfQueries = server.attempts;
  expect(attemptsOfQueries).toBeLessThanOrEqual(51);
  expect(server.concurrentAttempts).toBe(0);
  const delaysMs: number[] = [];
  for (let attempt = 1; attempt <= 6; attempt += 1) {
    delaysMs.push(await timers.runNext());
    expect(server.attempts).toBe(attemptsOfQueries + attempt);
  }
  for (const [index, delayMs] of delaysMs.entries()) {
    const maxDelayMs = Math.min(100 * 2 ** index, MAX_RETRY_DELAY_MS);
    expect(delayMs).toBeGreaterThanOrEqual(maxDelayMs / 2);
    expect(delayMs).toBeLessThanOrEqual(maxDelayMs);
  }

  server.isDown = false;
  await timers.runNext();
  expect(await Promise.all(queries)).toHaveLength(50);
});

it('tries one connection at a time if a server does not respond to the first attempts', async () => {
  const { pool, server, timers } = createFakes();
  server.isDown = true;
  server.connectMs = CONNECT_TIMEOUT_MS;
  server.delay = timers.delay;
  const queries = [trackRejection(pool.connect()), trackRejection(pool.connect())];
  await timers.advanceTo(CONNECT_TIMEOUT_MS);
  for (const { error } of queries) {
    expect(error).toBeInstanceOf(DatabaseUnavailableError);
  }
  expect(pool.isReachable).toBe(false);
  expect(server.concurrentAttempts).toBe(1);
});

it('rejects queries when the server was unreachable for five seconds, and later ones after one second', async () => {
  const { pool, server, timers } = createFakes();
  server.isDown = true;
  const early = [trackRejection(pool.connect())];
  await timers.advanceTo(CONNECT_TIMEOUT_MS / 2);
  early.push(trackRejection(pool.connect()));
  await timers.advanceTo(CONNECT_TIMEOUT_MS - 1);
  expect(early.map(({ error }) => error)).toEqual([null, null]);
  await timers.advanceTo(CONNECT_TIMEOUT_MS);
  for (const { error } of early) {
    expect(error).toBeInstanceOf(DatabaseUnavailableError);
    expect(error).toMatchObject({ cause: SERVER_DOWN });
  }

  const late = trackRejection(pool.connect());
  await timers.advanceTo(CONNECT_TIMEOUT_MS + MIN_WAIT_MS - 1);
  expect(late.error).toBeNull();
  await timers.advanceTo(CONNECT_TIMEOUT_MS + MIN_WAIT_MS);
  expect(late.error).toBeInstanceOf(DatabaseUnavailableError);

  server.isDown = false;
  const recovered = pool.connect();
  await timers.advanceTo(CONNECT_TIMEOUT_MS + MIN_WAIT_MS + MAX_RETRY_DELAY_MS);
  expect(await recovered).toBeDefined();
});

it('closes all idle connections after a failure, and marks those in use as stale', async () => {
  const { pool, server } = createFakes();
  const [failed, busy, idle] = await Promise.all([pool.connect(), pool.connect(), pool.connect()]);
  idle.release();
  expect(server.closedClients).toEqual([]);
  pool.reportFailure(failed, new Error('cannot execute INSERT in a read-only transaction'));
  await settle();
  expect(server.closedClients).toEqual([idle]);
  expect([failed, busy].map((client) => pool.isStale(client))).toEqual([true, true]);

  // A late failure of an earlier connection says nothing about the new ones.
  const fresh = await pool.connect();
  pool.reportFailure(busy, new Error('Query read timeout'));
  expect(pool.isStale(fresh)).toBe(false);
});

it('keeps its connections if they are only busy', async () => {
  const { pool, server } = createFakes();
  const client = await pool.connect();
  server.isBusy = true;
  await expect(pool.connect()).rejects.toThrow(DatabaseUnavailableError);
  expect(pool.isStale(client)).toBe(false);
  server.isBusy = false;
  expect(await pool.connect()).toBeDefined();
});

it('rejects a query at once if 5,000 others wait', async () => {
  const { pool } = createFakes();
  const waiting = Array.from({ length: MAX_WAITING }, () => pool.connect());
  await expect(pool.connect()).rejects.toThrow(DatabaseUnavailableError);
  expect(await Promise.all(waiting)).toHaveLength(MAX_WAITING);
  expect(await pool.connect()).toBeDefined();
});

function trackRejection(promise: Promise<unknown>) {
  const tracked: { error: unknown } = { error: null };
  promise.catch((error: unknown) => {
    tracked.error = error;
  });
  return tracked;
}

/** Waits until all promises that need no timer have settled. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) {
    await nextEventLoopTurn();
  }
}

function createFakes() {
  const server = new FakePool();
  const timers = new FakeTimers();
  const pool = new ReconnectingPool(server as unknown as pg.Pool, () => undefined, {
    timing: timers,
  });
  return { pool, server, timers };
}

/** A pool like `pg.Pool` without a limit. */
class FakePool extends EventEmitter {
  readonly ending = false;
  isDown = false;
  isBusy = false;
  connectMs = 0;
  delay: (ms: number) => Promise<unknown> = () => nextEventLoopTurn();
  attempts = 0;
  concurrentAttempts = 0;
  readonly closedClients: pg.PoolClient[] = [];
  readonly #idle: pg.PoolClient[] = [];

  async connect(): Promise<pg.PoolClient> {
    if (this.isBusy) {
      throw new Error('timeout exceeded when trying to connect');
    }
    const idleClient = this.#idle.pop();
    if (idleClient !== undefined) {
      return idleClient;
    }
    this.attempts += 1;
    this.concurrentAttempts += 1;
    await this.delay(this.connectMs);
    this.concurrentAttempts -= 1;
    if (this.isDown) {
      throw SERVER_DOWN;
    }
    const client = {
      release: (shouldClose = false) =>
        void (shouldClose ? this.closedClients : this.#idle).push(client as pg.PoolClient),
    };
    this.emit('connect', client);
    return client as pg.PoolClient;
  }
}

class FakeTimers {
  #nowMs = 0;
  #pending: { atMs: number; delayMs: number; fire: () => void }[] = [];

  readonly monotonicMs = () => this.#nowMs;

  readonly delay = (
    delayMs: number,
    _value?: undefined,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<void> => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = { atMs: this.#nowMs + delayMs, delayMs, fire: resolve };
    this.#pending.push(timer);
    signal?.addEventListener('abort', () => {
      this.#pending = this.#pending.filter((each) => each !== timer);
      reject(signal.reason);
    });
    return promise;
  };

  /** Fires the next timer, and returns its delay. */
  async runNext(): Promise<number> {
    await settle();
    const [next] = this.#pending.toSorted((a, b) => a.atMs - b.atMs);
    if (next === undefined) {
      throw new Error('no timer is pending');
    }
    this.#pending = this.#pending.filter((each) => each !== next);
    this.#nowMs = next.atMs;
    next.fire();
    await settle();
    return next.delayMs;
  }

  /** Fires all timers until a time. */
  async advanceTo(untilMs: number): Promise<void> {
    await settle();
    while (this.#pending.some(({ atMs }) => atMs <= untilMs)) {
      await this.runNext();
    }
    this.#nowMs = untilMs;
  }
}
