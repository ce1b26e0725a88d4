import { copyFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  Kysely,
  type QueryResult,
  type TransactionSettings,
} from 'kysely';
import type { Database } from '../../src/database/database.ts';
import type { Listen } from '../../src/database/notifications.ts';
import type { DatabaseSchema } from '../../src/database/schema.ts';
import { SqliteConnection, type SqliteResult } from '../../src/database/sqlite-connection.ts';
import { createSqliteDialect, type SqliteDriver } from '../../src/database/sqlite-dialect.ts';
import { DatabaseUnavailableError } from '../../src/errors.ts';
import type { FaultPlan } from './faults.ts';
import type { History } from './history.ts';
import type { Random } from './random.ts';
import type { Actor, Scheduler } from './scheduler.ts';

type Listener = Parameters<Listen>[0];

/** Like PostgreSQL's or the disk's: what the database answers to a write. Reads work unless it is `gone`. */
export type DatabaseCondition = 'working' | 'gone' | 'read-only' | 'full';

interface DatabaseContext {
  /** A migrated database without rows. Is copied. */
  template: string;
  folder: string;
  scheduler: Scheduler;
  random: Random;
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
  readonly #waiting: { session: Session; retry: () => void }[] = [];
  #condition: DatabaseCondition = 'working';
  commitCount = 0;

  constructor(context: DatabaseContext) {
    this.#context = context;
    this.#file = path.join(context.folder, 'run.db');
    this.#deleteFiles();
    copyFileSync(context.template, this.#file);
    this.#writer = this.#open('write');
    this.#reader = this.#open('read');
  }

  get condition(): DatabaseCondition {
    return this.#condition;
  }

  /** Opens the database for a process. Its death ends the transactions of the process. */
  openFor(actor: Actor): Database {
    const db = new Kysely<DatabaseSchema>({ dialect: this.#createDialect(actor) });
    actor.onDeath(() => {
      if (this.#lockHolder?.actor === actor) {
        this.#lockHolder.abandon();
      }
    });
    return {
      db,
      listen: (listener) => this.#listen(listener, actor),
      poolStats: () => null,
      readFreeDiskBytes: async () => null,
      isWritable: () => this.#condition === 'working',
      close: async () => undefined,
    };
  }

  /** Ends all transactions and notification connections. What was committing is committed or lost, by chance. */
  setCondition(condition: DatabaseCondition): void {
    this.#condition = condition;
    if (condition === 'gone' || condition === 'read-only') {
      this.#lockHolder?.abandon();
      for (const connection of this.#listeners) {
        connection.disconnect();
      }
    } else if (condition === 'working') {
      for (const connection of this.#listeners) {
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

  #createDialect(actor: Actor): Dialect {
    const driver: Driver = {
      init: async () => undefined,
      acquireConnection: async () => {
        const session = new Session(this.#context, this, actor);
        return session;
      },
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

  /** Resolves when no other session writes. The caller must call `unlock`. */
  async lock(session: Session): Promise<void> {
    while (this.#lockHolder !== null) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting.push({ session, retry: resolve });
      await promise;
    }
    this.#lockHolder = session;
  }

  unlock(session: Session): void {
    if (this.#lockHolder === session) {
      this.#lockHolder = null;
      const { scheduler } = this.#context;
      // In the order of their arrival; each checks again, because one of them may have died.
      for (const { retry, session: waiter } of this.#waiting.splice(0)) {
        scheduler.schedule(0, retry, waiter.actor);
      }
    }
  }

  deliver(notifications: SqliteResult['notifications']): void {
    for (const [channel, payload] of notifications) {
      for (const connection of this.#listeners) {
        connection.deliver(channel, payload);
      }
    }
  }

  async #listen(listener: Listener, actor: Actor) {
    await this.#context.scheduler.sleep(1);
    if (this.#condition === 'gone') {
      throw new DatabaseUnavailableError(new Error('simulated: the database is gone'));
    }
    const connection = new ListenerConnection(this.#context, this, listener, actor);
    this.#listeners.add(connection);
    actor.onDeath(() => this.#listeners.delete(connection));
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

/** What Kysely calls a connection: one query or transaction of a process. */
class Session implements DatabaseConnection {
  readonly #context: DatabaseContext;
  readonly #database: SimulatedDatabase;
  readonly actor: Actor;
  #snapshot: SqliteConnection | null = null;
  #isInTransaction = false;
  #isCommitting = false;
  #isBroken = false;

  constructor(context: DatabaseContext, database: SimulatedDatabase, actor: Actor) {
    this.#context = context;
    this.#database = database;
    this.actor = actor;
  }

  async executeQuery<Row>({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
    const { rows, changes } = await this.#execute(sql, parameters);
    return { rows: rows as Row[], numAffectedRows: BigInt(changes) };
  }

  // biome-ignore lint/correctness/useYield: Kysely requires the method; the service streams no query.
  async *streamQuery(): AsyncGenerator<never> {
    throw new Error('queries are not streamed');
  }

  async begin({ accessMode }: TransactionSettings): Promise<void> {
    if (accessMode === 'read only') {
      await this.#waitForAnswer();
      this.#snapshot = this.#database.openSnapshot();
      this.actor.onDeath(() => this.#closeSnapshot());
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
    if (this.#snapshot !== null) {
      await this.#waitForAnswer();
      return this.#snapshot.run(sql, parameters);
    }
    if (this.#isInTransaction) {
      await this.#waitForAnswer();
      this.#assertUsable();
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
    await this.#waitForAnswer();
    this.#assertUsable();
    if (faults.choose('failed commit', 0.01)) {
      history.add(this.actor, () => 'commit fails');
      throw unavailable('the commit failed');
    }
    const { notifications } = commit();
    this.#isCommitting = false;
    this.#isInTransaction = false;
    this.#database.commitCount += 1;
    this.#database.deliver(notifications);
    if (faults.choose('lost answer to a commit', 0.01)) {
      history.add(this.actor, () => 'does not learn that its transaction was committed');
      throw unavailable('the connection broke');
    }
  }

  async #beginWriting(): Promise<void> {
    await this.#database.lock(this);
    this.#isInTransaction = true;
    await this.#waitForAnswer();
    this.#assertUsable();
    this.#database.runStatement('begin immediate', [], true);
  }

  async #waitForAnswer(): Promise<void> {
    const { scheduler, random, faults } = this.#context;
    const isSlow = faults.choose('slow database', 0.01);
    await scheduler.sleep(isSlow ? random.exponential(1_000) : random.between(0.05, 0.5));
    if (this.#database.condition === 'gone') {
      throw unavailable('the database is gone');
    }
  }

  #assertUsable(): void {
    const { condition } = this.#database;
    if (this.#isBroken) {
      throw unavailable('the connection broke');
    }
    if (condition !== 'working') {
      throw unavailable(`the database is ${condition}`);
    }
  }

  #closeSnapshot(): void {
    this.#snapshot?.close();
    this.#snapshot = null;
  }
}

/** Statements that the service's driver runs on its reader, too. */
const READ_ONLY_STATEMENT = /^\s*(?:select|with)\b(?!.*\b(?:insert|update|delete|pg_notify)\b)/is;

function unavailable(reason: string): DatabaseUnavailableError {
  return new DatabaseUnavailableError(new Error(`simulated: ${reason}`));
}

/** The connection on which a process listens. Like PostgreSQL, delivers in order; what is sent while it is broken is lost. */
class ListenerConnection {
  isConnected = true;
  readonly #context: DatabaseContext;
  readonly #database: SimulatedDatabase;
  readonly #listener: Listener;
  readonly #actor: Actor;
  #lastAliveAtMs: number;
  /** When the latest notification arrives. */
  #arrivesAtMs = 0;
  #isReconnecting = false;

  constructor(
    context: DatabaseContext,
    database: SimulatedDatabase,
    listener: Listener,
    actor: Actor,
  ) {
    this.#context = context;
    this.#database = database;
    this.#listener = listener;
    this.#actor = actor;
    this.#lastAliveAtMs = listener.clock();
  }

  deliver(channel: string, payload: string): void {
    const { scheduler, random, faults, history } = this.#context;
    if (faults.choose('lost notifications', 0.005)) {
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

  scheduleReconnect(): void {
    const { scheduler, random } = this.#context;
    if (!this.isConnected && !this.#isReconnecting) {
      this.#isReconnecting = true;
      scheduler.schedule(random.between(50, 3_000), () => void this.#reconnect(), this.#actor);
    }
  }

  async #reconnect(): Promise<void> {
    this.#isReconnecting = false;
    if (this.#database.condition !== 'working') {
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
