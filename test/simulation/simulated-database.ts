import { copyFileSync, rmSync } from 'node:fs';
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  Kysely,
  type QueryResult,
  type TransactionSettings,
} from 'kysely';
import type { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import type { Database } from '../../src/database/database.ts';
import type { Listen } from '../../src/database/notifications.ts';
import type { DatabaseSchema } from '../../src/database/schema.ts';
import { SqliteConnection, type SqliteResult } from '../../src/database/sqlite-connection.ts';
import { createSqliteDialect, type SqliteDriver } from '../../src/database/sqlite-dialect.ts';
import { DatabaseUnavailableError, OperatorError } from '../../src/errors.ts';
import type { FaultPlan } from './faults.ts';
import type { History } from './history.ts';
import { MachineClock } from './machine-clock.ts';
import { type Actor, never, type Scheduler, WORLD } from './scheduler.ts';

type Listener = Parameters<Listen>[0];

/**
 * What fails. `gone`: everything. `read-only`: writes and new connections, so that reads fail, too, as soon as a process
 * has noticed. `full`: writes.
 */
export type DatabaseCondition = 'working' | 'gone' | 'read-only' | 'full';

export interface DatabaseContext {
  /** A migrated database without rows. Is copied. */
  template: string;
  file: string;
  scheduler: Scheduler;
  random: SeededRandom;
  faults: FaultPlan;
  history: History;
}

/**
 * One real SQLite database that all processes share, as they share a PostgreSQL server. Transactions that write run one
 * after the other. Each query takes virtual time, so that a process can die, or the database fail, between any two.
 */
export class SimulatedDatabase {
  readonly #context: DatabaseContext;
  readonly #file: string;
  readonly #writer: SqliteConnection;
  readonly #reader: SqliteConnection;
  readonly #listeners = new Set<ListenerConnection>();
  /** The session whose transaction writes, and those that wait for it to end. */
  #lockHolder: Session | null = null;
  #waiting: { session: Session; take: () => void }[] = [];
  #condition: DatabaseCondition = 'working';
  readonly name = 'database';
  readonly clock = new MachineClock();
  /** Incremented when the server ends all connections. */
  generation = 0;
  /** By the id of its lease, each process that ever had one. */
  readonly leaseHolders = new Map<string, Actor>();
  /** When a query of a process last failed, or found no connection. */
  lastFailureMs = Number.NEGATIVE_INFINITY;
  /** The same, but only if the query may have been one that lists new payments. */
  lastFailedListingMs = Number.NEGATIVE_INFINITY;

  constructor(context: DatabaseContext) {
    this.#context = context;
    this.#file = context.file;
    this.#deleteFiles();
    copyFileSync(context.template, this.#file);
    this.#writer = this.#open('write');
    this.#reader = this.#open('read');
  }

  get condition(): DatabaseCondition {
    return this.#condition;
  }

  get waitingCount(): number {
    return this.#waiting.length;
  }

  /** Opens the database for a process. Its death ends its transactions. @throws OperatorError if it is unavailable */
  async open(actor: Actor): Promise<Database> {
    await this.#context.scheduler.sleep(this.#context.random.between(1, 20));
    if (!this.acceptsConnections) {
      throw new OperatorError(`simulated: the database is ${this.#condition}`);
    }
    const pool = new ConnectionPool(this.#context, this, actor);
    const db = new Kysely<DatabaseSchema>({ dialect: this.#createDialect(pool) });
    actor.onDeath(() => {
      this.#waiting = this.#waiting.filter(({ session }) => session.actor !== actor);
      if (this.#lockHolder?.actor === actor) {
        this.#lockHolder.abandon();
      }
    });
    return {
      db,
      listen: (listener) => this.#listen(listener, pool),
      poolStats: () => null,
      readDiskSpace: async () => null,
      isWritable: () => pool.isReachable,
      close: async () => undefined,
    };
  }

  /** The service connects to writable servers only. */
  get acceptsConnections(): boolean {
    return this.#condition !== 'gone' && this.#condition !== 'read-only';
  }

  /** If the database is gone, what was committing is committed or lost, by chance. */
  setCondition(condition: DatabaseCondition): void {
    const { scheduler, random } = this.#context;
    this.#condition = condition;
    if (condition === 'gone') {
      this.generation += 1;
      this.#lockHolder?.abandon();
    }
    for (const connection of this.#listeners) {
      if (condition === 'gone') {
        connection.disconnect();
      } else if (condition === 'read-only') {
        // The next heartbeat finds out.
        scheduler.schedule(random.between(0, 2_000), () => connection.checkServer(), WORLD);
      } else if (condition === 'working') {
        connection.scheduleReconnect();
      }
    }
  }

  /** For the checks, which see what is committed. Takes no virtual time. */
  query<Row>(sql: string, ...parameters: (string | number)[]): Row[] {
    return this.#reader.run(sql, parameters).rows as Row[];
  }

  close(): void {
    this.#reader.close();
    this.#writer.close();
    this.#deleteFiles();
  }

  #deleteFiles(): void {
    for (const suffix of ['', '-wal', '-shm']) {
      rmSync(`${this.#file}${suffix}`, { force: true });
    }
  }

  #open(mode: 'read' | 'write'): SqliteConnection {
    const connection = new SqliteConnection({ file: this.#file, mode, busyTimeoutMs: 0 });
    // Power cuts are simulated: a commit is lost unless the process has learnt of it.
    connection.run('pragma synchronous = off', []);
    connection.run('pragma wal_autocheckpoint = 1000', []);
    return connection;
  }

  #createDialect(pool: ConnectionPool): Dialect {
    const driver: Driver = {
      init: async () => undefined,
      acquireConnection: () => pool.connect(),
      beginTransaction: (connection, settings) => (connection as Session).begin(settings),
      commitTransaction: (connection) => (connection as Session).commit(),
      rollbackTransaction: (connection) => (connection as Session).rollback(),
      releaseConnection: async (connection) => (connection as Session).release(),
      destroy: async () => undefined,
    };
    // The adapter and the compiler are the service's.
    return {
      ...createSqliteDialect(driver as unknown as SqliteDriver),
      createDriver: () => driver,
    };
  }

  /** Runs a statement outside a transaction, or in the one that holds the lock. */
  runStatement(sql: string, parameters: readonly unknown[], isWrite: boolean): SqliteResult {
    return (isWrite ? this.#writer : this.#reader).run(sql, parameters);
  }

  openSnapshot(): SqliteConnection {
    return this.#open('read');
  }

  rollBackWriter(): void {
    this.#writer.rollback();
  }

  /** Waits until no other session writes. Returns false after the statement timeout. The caller must call `unlock`. */
  async lock(session: Session): Promise<boolean> {
    if (!session.actor.isAlive) {
      return never();
    }
    if (this.#lockHolder === null) {
      this.#lockHolder = session;
      return true;
    }
    const { scheduler } = this.#context;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const waiter = { session, take: () => resolve(true) };
    this.#waiting.push(waiter);
    const timeout = scheduler.schedule(STATEMENT_TIMEOUT_MS, () => {
      this.#waiting = this.#waiting.filter((other) => other !== waiter);
      const holder = this.#lockHolder;
      if (holder !== null && holder.actor.pausedUntilMs > scheduler.nowMs) {
        // The server ends transactions that are idle for too long.
        holder.abandon();
      }
      resolve(false);
    });
    const hasLock = await promise;
    scheduler.cancel(timeout);
    return hasLock;
  }

  /** Gives the lock to the session that has waited longest. */
  unlock(session: Session): void {
    if (this.#lockHolder === session) {
      const next = this.#waiting.shift();
      this.#lockHolder = next?.session ?? null;
      if (next !== undefined) {
        this.#context.scheduler.schedule(0, next.take, next.session.actor);
      }
    }
  }

  /** @param sql null: any query */
  recordFailure(sql: string | null): void {
    this.lastFailureMs = this.#context.scheduler.nowMs;
    if (sql === null || /set listed_until/.test(sql)) {
      this.lastFailedListingMs = this.lastFailureMs;
    }
  }

  deliver(notifications: SqliteResult['notifications']): void {
    for (const [channel, payload] of notifications) {
      for (const connection of this.#listeners) {
        connection.deliver(channel, payload);
      }
    }
  }

  async #listen(listener: Listener, pool: ConnectionPool) {
    await this.#context.scheduler.sleep(1);
    if (!this.acceptsConnections) {
      throw unavailable(`the database is ${this.#condition}`);
    }
    const connection = new ListenerConnection(this.#context, this, listener, pool);
    this.#listeners.add(connection);
    pool.actor.onDeath(() => this.#listeners.delete(connection));
    return {
      get isConnected() {
        return connection.isConnected;
      },
      close: async () => {
        connection.disconnect();
        this.#listeners.delete(connection);
      },
    };
  }
}

/** The connections of a process. After a failure, queries wait for a new connection, as in the service's own pool. */
class ConnectionPool {
  readonly #context: DatabaseContext;
  readonly #database: SimulatedDatabase;
  readonly actor: Actor;
  #failedAtMs: number | null = null;

  constructor(context: DatabaseContext, database: SimulatedDatabase, actor: Actor) {
    this.#context = context;
    this.#database = database;
    this.actor = actor;
  }

  get isReachable(): boolean {
    return this.#failedAtMs === null;
  }

  async connect(): Promise<Session> {
    const { scheduler } = this.#context;
    const deadlineMs = Math.max((this.#failedAtMs ?? 0) + 5_000, scheduler.nowMs + 1_000);
    while (this.#failedAtMs !== null) {
      if (scheduler.nowMs >= deadlineMs) {
        this.#database.recordFailure(null);
        throw unavailable('no connection to the database');
      }
      await scheduler.sleep(50);
    }
    return new Session(this.#context, this.#database, this);
  }

  /** Called when a query has found that the server has failed, or is no longer the primary. */
  handleFailure(): void {
    const { scheduler, random } = this.#context;
    if (this.#failedAtMs !== null) {
      return;
    }
    this.#failedAtMs = scheduler.nowMs;
    const reconnect = () => {
      if (this.#database.acceptsConnections) {
        this.#failedAtMs = null;
      } else {
        scheduler.schedule(random.between(100, 1_000), reconnect, this.actor);
      }
    };
    scheduler.schedule(random.between(1, 20), reconnect, this.actor);
  }
}

/** What Kysely calls a connection: one query or transaction of a process. */
class Session implements DatabaseConnection {
  readonly #context: DatabaseContext;
  readonly #database: SimulatedDatabase;
  readonly #pool: ConnectionPool;
  readonly #generation: number;
  readonly actor: Actor;
  /** When the current statement times out. */
  #timesOutAtMs = 0;
  #sql: string | null = null;
  #snapshot: SqliteConnection | null = null;
  #forgetSnapshot: () => void = () => {};
  #isInTransaction = false;
  #isCommitting = false;
  #isBroken = false;

  constructor(context: DatabaseContext, database: SimulatedDatabase, pool: ConnectionPool) {
    this.#context = context;
    this.#database = database;
    this.#pool = pool;
    this.#generation = database.generation;
    this.actor = pool.actor;
  }

  async executeQuery<Row>({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
    this.#startTimeout();
    const { rows, changes } = await this.#execute(sql, parameters);
    return { rows: rows as Row[], numAffectedRows: BigInt(changes) };
  }

  // biome-ignore lint/correctness/useYield: Kysely requires the method; the service streams no query.
  async *streamQuery(): AsyncGenerator<never> {
    throw new Error('queries are not streamed');
  }

  async begin({ accessMode }: TransactionSettings): Promise<void> {
    this.#startTimeout();
    if (accessMode === 'read only') {
      await this.#waitForAnswer();
      this.#snapshot = this.#database.openSnapshot();
      this.#forgetSnapshot = this.actor.onDeath(() => this.#closeSnapshot());
      this.#snapshot.run('begin', []);
      return;
    }
    await this.#beginWriting();
  }

  async commit(): Promise<void> {
    if (this.#snapshot !== null) {
      this.#snapshot.run('commit', []);
      return;
    }
    this.#startTimeout();
    this.#isCommitting = true;
    await this.#finishCommit(() => this.#database.runStatement('commit', [], true));
  }

  async rollback(): Promise<void> {
    if (this.#snapshot !== null) {
      this.#snapshot.rollback();
    } else if (this.#isInTransaction && !this.#isBroken) {
      this.#database.rollBackWriter();
    }
  }

  release(): void {
    this.#closeSnapshot();
    this.#isInTransaction = false;
    this.#database.unlock(this);
  }

  /** The process died, or the connection broke. */
  abandon(): void {
    const { faults, history } = this.#context;
    if (this.#isInTransaction && !this.#isBroken) {
      if (this.#isCommitting && faults.choose('ambiguous commit', 0.5)) {
        history.add('database', () => `commits for ${this.actor.name}, which will not learn of it`);
        this.#database.deliver(this.#database.runStatement('commit', [], true).notifications);
      } else {
        this.#database.rollBackWriter();
      }
    }
    this.#isBroken = true;
    this.#isInTransaction = false;
    this.#database.unlock(this);
  }

  async #execute(sql: string, parameters: readonly unknown[]): Promise<SqliteResult> {
    this.#sql = sql;
    if (sql.startsWith('insert into "watch_processes"')) {
      this.#database.leaseHolders.set(String(parameters[0]), this.actor);
    }
    if (this.#snapshot !== null) {
      await this.#waitForAnswer();
      return this.#snapshot.run(sql, parameters);
    }
    if (this.#isInTransaction) {
      await this.#waitForAnswer();
      if (!READ_ONLY_STATEMENT.test(sql)) {
        this.#assertWritable();
      }
      return this.#database.runStatement(sql, parameters, true);
    }
    if (READ_ONLY_STATEMENT.test(sql)) {
      await this.#waitForAnswer();
      return this.#database.runStatement(sql, parameters, false);
    }
    try {
      await this.#beginWriting();
      const result = this.#database.runStatement(sql, parameters, true);
      this.#isCommitting = true;
      await this.#finishCommit(() => this.#database.runStatement('commit', [], true));
      return result;
    } catch (error) {
      await this.rollback();
      throw error;
    } finally {
      this.#isCommitting = false;
      this.release();
    }
  }

  /** Commits when the disk has answered. Until then, the commit may be lost, or its answer. */
  async #finishCommit(commit: () => SqliteResult): Promise<void> {
    const { faults, history } = this.#context;
    faults.recordStep('sends a commit', this.actor);
    await this.#waitForAnswer();
    this.#assertWritable();
    if (faults.choose('failed commit', 0.01)) {
      history.add(this.actor, () => 'commit fails');
      this.#fail('the commit failed');
    }
    const { notifications } = commit();
    this.#isCommitting = false;
    this.#isInTransaction = false;
    this.#database.deliver(notifications);
    faults.recordStep('has committed', this.actor);
    if (faults.choose('lost answer to a commit', 0.01)) {
      history.add(this.actor, () => 'does not learn that its transaction was committed');
      throw unavailable('the connection broke');
    }
  }

  async #beginWriting(): Promise<void> {
    if (!(await this.#database.lock(this))) {
      this.#fail('canceling statement due to statement timeout');
    }
    await this.#waitForAnswer();
    if (this.#database.condition === 'read-only') {
      this.#pool.handleFailure();
      this.#fail('the database is read-only');
    }
    this.#isInTransaction = true;
    this.#database.runStatement('begin immediate', [], true);
  }

  async #waitForAnswer(): Promise<void> {
    const { scheduler, random, faults } = this.#context;
    const isSlow = faults.choose('slow database', 0.01);
    faults.recordStep('queries the database', this.actor);
    const delayMs = isSlow
      ? random.exponential(random.pick([300, 1_000, 5_000]))
      : random.between(0.05, 0.5);
    const timeoutMs = this.#timesOutAtMs - scheduler.nowMs;
    await scheduler.sleep(Math.min(delayMs, timeoutMs));
    const { condition, generation } = this.#database;
    if (condition === 'gone' || this.#generation !== generation) {
      this.#pool.handleFailure();
      this.#fail('the server has ended the connection');
    }
    if (this.#isBroken || delayMs >= timeoutMs) {
      this.#fail('canceling statement due to statement timeout');
    }
  }

  #startTimeout(): void {
    this.#timesOutAtMs = this.#context.scheduler.nowMs + STATEMENT_TIMEOUT_MS;
  }

  /** Breaks this connection. Also the rollback that follows finds it broken, and nothing else can be done with it. */
  #fail(reason: string): never {
    this.#database.recordFailure(this.#sql);
    this.#isCommitting = false;
    this.abandon();
    throw unavailable(reason);
  }

  /** A transaction that began before the server became read-only can write. */
  #assertWritable(): void {
    if (this.#database.condition === 'full') {
      this.#fail('the disk is full');
    }
  }

  #closeSnapshot(): void {
    this.#forgetSnapshot();
    this.#snapshot?.close();
    this.#snapshot = null;
  }
}

/** Statements that the service's driver runs on its reader, too. */
const READ_ONLY_STATEMENT = /^\s*(?:select|with)\b(?!.*\b(?:insert|update|delete|pg_notify)\b)/is;

/** That of the service's connections to PostgreSQL. */
const STATEMENT_TIMEOUT_MS = 8_000;

function unavailable(reason: string): DatabaseUnavailableError {
  return new DatabaseUnavailableError(new Error(`simulated: ${reason}`));
}

/** The connection on which a process listens. Like PostgreSQL, delivers in order; what is sent while it is broken is lost. */
class ListenerConnection {
  isConnected = true;
  readonly #context: DatabaseContext;
  readonly #database: SimulatedDatabase;
  readonly #listener: Listener;
  readonly #pool: ConnectionPool;
  readonly #actor: Actor;
  #lastAliveAtMs: number;
  /** When the latest notification arrives. */
  #arrivesAtMs = 0;
  #isReconnecting = false;

  constructor(
    context: DatabaseContext,
    database: SimulatedDatabase,
    listener: Listener,
    pool: ConnectionPool,
  ) {
    this.#context = context;
    this.#database = database;
    this.#listener = listener;
    this.#pool = pool;
    this.#actor = pool.actor;
    this.#lastAliveAtMs = listener.clock();
  }

  deliver(channel: string, payload: string): void {
    const { scheduler, random, faults, history } = this.#context;
    if (faults.choose('lost notifications', 0.02)) {
      history.add(this.#actor, () => 'loses its notification connection');
      this.disconnect();
      this.scheduleReconnect();
      return;
    }
    if (!this.isConnected) {
      return;
    }
    const isLate = faults.choose('late notifications', 0.02);
    const delayMs = isLate ? random.exponential(1_000) : random.between(0.1, 1);
    this.#arrivesAtMs = Math.max(this.#arrivesAtMs, scheduler.nowMs + delayMs);
    const copies = faults.choose('repeated notifications', 0.02) ? 2 : 1;
    for (let copy = 0; copy < copies; copy += 1) {
      scheduler.schedule(
        this.#arrivesAtMs - scheduler.nowMs,
        () => {
          if (this.isConnected) {
            this.#lastAliveAtMs = this.#listener.clock();
            this.#listener.channels[channel]?.(payload);
            faults.recordStep('receives a notification', this.#actor);
          }
        },
        this.#actor,
      );
    }
  }

  disconnect(): void {
    if (this.isConnected) {
      this.isConnected = false;
      this.#lastAliveAtMs = Math.min(this.#lastAliveAtMs, this.#listener.clock());
    }
  }

  /** If the server is no longer writable, the process's other connections are of no use either. */
  checkServer(): void {
    if (!this.#database.acceptsConnections && this.#actor.isAlive) {
      this.disconnect();
      this.#pool.handleFailure();
    }
  }

  scheduleReconnect(): void {
    const { scheduler, random } = this.#context;
    if (!this.isConnected && !this.#isReconnecting) {
      this.#isReconnecting = true;
      scheduler.schedule(random.between(50, 3_000), () => void this.#reconnect(), this.#actor);
    }
  }

  async #reconnect(): Promise<void> {
    this.#isReconnecting = false;
    if (!this.#database.acceptsConnections) {
      return;
    }
    this.isConnected = true;
    const sinceMs = Math.min(this.#lastAliveAtMs, this.#listener.clock());
    try {
      await this.#listener.onMissedNotifications(sinceMs);
    } catch {
      this.isConnected = false;
      this.scheduleReconnect();
    }
  }
}
