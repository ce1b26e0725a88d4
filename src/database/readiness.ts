import { setTimeout as delay } from 'node:timers/promises';
import type { MigrationStore } from './migration-store.ts';

/** Load balancers wait longer than this for an answer. */
const DATABASE_TIMEOUT_MS = 2_000;

/** Anyone may ask as often as they like; the database is asked once in this time. */
const CACHED_MS = 1_000;

/** `unknown`: only the database could tell, and it does not answer. */
type CheckResult = 'ok' | 'failing' | 'unknown';

/** Whether to route requests to this process, and why not. */
export interface ReadinessStatus {
  status: 'ready' | 'starting' | 'failing' | 'stopping';
  checks: {
    /** The database answers, and its last write succeeded. */
    database: CheckResult;
    /** It has all tables that this version needs. */
    migrations: CheckResult;
    /** Notifications of other processes arrive (LISTEN). */
    listen: CheckResult;
  };
}

type DatabaseChecks = Pick<ReadinessStatus['checks'], 'database' | 'migrations'>;

const UNREACHABLE: DatabaseChecks = { database: 'failing', migrations: 'unknown' };

/** Decides whether this process is to receive requests: from the end of its start to the beginning of its stop. */
export class Readiness {
  readonly #parts: ReadinessParts;
  #stage: 'starting' | 'serving' | 'stopping' = 'starting';
  /** The query under way: a vanished server may leave it open for half a minute. */
  #asking: Promise<void> | null = null;
  #database = UNREACHABLE;
  #askedAtMs = Number.NEGATIVE_INFINITY;

  constructor(parts: ReadinessParts) {
    this.#parts = parts;
  }

  serve(): void {
    this.#stage = 'serving';
  }

  stop(): void {
    this.#stage = 'stopping';
  }

  get isStopping(): boolean {
    return this.#stage === 'stopping';
  }

  /** Checks everything, within seconds even if the database does not answer. */
  async status(): Promise<ReadinessStatus> {
    await this.#askDatabase();
    const listen = this.#parts.isListening() ? 'ok' : 'failing';
    const database = this.#parts.isWritable() ? this.#database.database : 'failing';
    const checks: ReadinessStatus['checks'] = { ...this.#database, database, listen };
    if (this.#stage !== 'serving') {
      return { status: this.#stage, checks };
    }
    const isReady = Object.values(checks).every((result) => result === 'ok');
    return { status: isReady ? 'ready' : 'failing', checks };
  }

  async #askDatabase(): Promise<void> {
    const nowMs = this.#parts.monotonicMs();
    if (this.#asking === null && nowMs - this.#askedAtMs < CACHED_MS) {
      return;
    }
    if (this.#asking === null) {
      this.#askedAtMs = nowMs;
      this.#asking = this.#ask();
    }
    const timeout = delay(DATABASE_TIMEOUT_MS, 'timeout', { ref: false });
    if ((await Promise.race([this.#asking, timeout])) === 'timeout') {
      this.#database = UNREACHABLE;
    }
  }

  async #ask(): Promise<void> {
    try {
      const areApplied = await this.#parts.migrations.areApplied();
      this.#database = { database: 'ok', migrations: areApplied ? 'ok' : 'failing' };
    } catch {
      this.#database = UNREACHABLE;
    }
    this.#asking = null;
  }
}

interface ReadinessParts {
  migrations: Pick<MigrationStore, 'areApplied'>;
  /** Whether notifications of other processes arrive. */
  isListening: () => boolean;
  /** Whether the last write to the database succeeded. */
  isWritable: () => boolean;
  monotonicMs: () => number;
}
