import { DatabaseUnavailableError } from '../errors.ts';
import { waitAtMost } from '../wait-at-most.ts';
import { READINESS_CACHE_MS, READINESS_QUERY_TIMEOUT_MS } from './limits.ts';
import type { readMigrationStatus } from './migration-store.ts';

export interface ReadinessStatus {
  status: 'ready' | 'starting' | 'failing' | 'stopping';
  checks: {
    /** The database can be reached, is not read-only, and its last write succeeded. */
    database: 'ok' | 'failing';
    /** All migrations of this version were applied. `unknown` if the database cannot be reached. */
    migrations: 'ok' | 'failing' | 'unknown';
    /** The database responds, and notifications from other processes arrive (LISTEN). */
    listen: 'ok' | 'failing';
  };
}

type DatabaseChecks = Pick<ReadinessStatus['checks'], 'database' | 'migrations'>;

const DATABASE_UNREACHABLE: DatabaseChecks = { database: 'failing', migrations: 'unknown' };

interface ReadinessOptions {
  queryMigrations: () => ReturnType<typeof readMigrationStatus>;
  isListening: () => boolean;
  isWritable: () => boolean;
  monotonicMs: () => number;
}

export class Readiness {
  readonly #deps: ReadinessOptions;
  #phase: 'starting' | 'serving' | 'stopping' = 'starting';
  /**
   * The current database query. It takes ten seconds if the server has vanished, and seconds if all connections are busy.
   * A process that is only busy stays ready, because its requests would overload the other processes.
   */
  #pendingDatabaseCheck: Promise<void> | null = null;
  #databaseChecks = DATABASE_UNREACHABLE;
  #databaseCheckedAtMs = Number.NEGATIVE_INFINITY;

  constructor(deps: ReadinessOptions) {
    this.#deps = deps;
  }

  markServing(): void {
    this.#phase = 'serving';
  }

  markStopping(): void {
    this.#phase = 'stopping';
  }

  get isStopping(): boolean {
    return this.#phase === 'stopping';
  }

  /**
   * Returns within {@link READINESS_QUERY_TIMEOUT_MS}. If the database has not responded by then, uses its previous
   * response; `listen` shows whether the server has vanished.
   */
  async getStatus(): Promise<ReadinessStatus> {
    await this.#refreshDatabaseChecks();
    const listen = this.#deps.isListening() ? 'ok' : 'failing';
    const database = this.#deps.isWritable() ? this.#databaseChecks.database : 'failing';
    const checks: ReadinessStatus['checks'] = { ...this.#databaseChecks, database, listen };
    if (this.#phase !== 'serving') {
      return { status: this.#phase, checks };
    }
    const isReady = Object.values(checks).every((result) => result === 'ok');
    return { status: isReady ? 'ready' : 'failing', checks };
  }

  async #refreshDatabaseChecks(): Promise<void> {
    const nowMs = this.#deps.monotonicMs();
    if (this.#pendingDatabaseCheck === null) {
      if (nowMs - this.#databaseCheckedAtMs < READINESS_CACHE_MS) {
        return;
      }
      this.#databaseCheckedAtMs = nowMs;
      this.#pendingDatabaseCheck = this.#queryDatabase();
    }
    // Otherwise the process is not ready anyway, and load balancers should know at once.
    if (this.#deps.isListening()) {
      await waitAtMost(READINESS_QUERY_TIMEOUT_MS, this.#pendingDatabaseCheck);
    }
  }

  async #queryDatabase(): Promise<void> {
    try {
      const { isUpToDate, isWritable } = await this.#deps.queryMigrations();
      this.#databaseChecks = {
        database: isWritable ? 'ok' : 'failing',
        migrations: isUpToDate ? 'ok' : 'failing',
      };
    } catch (error) {
      const isBusy = error instanceof DatabaseUnavailableError && this.#deps.isWritable();
      this.#databaseChecks = isBusy ? this.#databaseChecks : DATABASE_UNREACHABLE;
    }
    this.#pendingDatabaseCheck = null;
  }
}
