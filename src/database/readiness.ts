import { DatabaseUnavailableError } from '../errors.ts';
import { waitAtMost } from '../wait-at-most.ts';

export interface ReadinessStatus {
  status: 'ready' | 'starting' | 'failing' | 'stopping';
  checks: {
    database: 'ok' | 'failing';
    migrations: 'ok' | 'failing' | 'unknown';
    listen: 'ok' | 'failing';
  };
}

interface ReadinessOptions {
  areMigrationsApplied: () => Promise<boolean>;
  isListening: () => boolean;
  isWritable: () => boolean;
  monotonicMs: () => number;
}

const UNREACHABLE = { database: 'failing', migrations: 'unknown' } as const;

/** Answers whether load balancers should send requests to this process. */
export class Readiness {
  readonly #options: ReadinessOptions;
  phase: 'starting' | 'serving' | 'stopping' = 'starting';
  #pendingCheck: Promise<void> | null = null;
  #checkedAtMs = Number.NEGATIVE_INFINITY;
  #lastCheck: Omit<ReadinessStatus['checks'], 'listen'> = UNREACHABLE;

  constructor(options: ReadinessOptions) {
    this.#options = options;
  }

  /** If the database does not respond within 2 s, the last check counts. If it has vanished, `listen` fails. */
  async getStatus(): Promise<ReadinessStatus> {
    const { isListening, isWritable, monotonicMs } = this.#options;
    // Any client may request `/health/ready`, so there is at most one query in a second.
    if (this.#pendingCheck === null && monotonicMs() - this.#checkedAtMs >= 1_000) {
      this.#checkedAtMs = monotonicMs();
      this.#pendingCheck = this.#checkDatabase();
    }
    // A process that is not listening is not ready anyway, and load balancers should learn that at once.
    if (isListening()) {
      await waitAtMost(2_000, this.#pendingCheck);
    }
    const listen = isListening() ? 'ok' : 'failing';
    const database = isWritable() ? this.#lastCheck.database : 'failing';
    const checks: ReadinessStatus['checks'] = { ...this.#lastCheck, database, listen };
    const isReady = Object.values(checks).every((result) => result === 'ok');
    const servingStatus = isReady ? 'ready' : 'failing';
    return { status: this.phase === 'serving' ? servingStatus : this.phase, checks };
  }

  async #checkDatabase(): Promise<void> {
    const { areMigrationsApplied, isWritable } = this.#options;
    try {
      const migrations = (await areMigrationsApplied()) ? 'ok' : 'failing';
      this.#lastCheck = { database: 'ok', migrations };
    } catch (error) {
      // A process that is merely busy keeps its status, because its requests would overload the other processes.
      const isBusy = error instanceof DatabaseUnavailableError && isWritable();
      if (!isBusy) {
        this.#lastCheck = UNREACHABLE;
      }
    }
    this.#pendingCheck = null;
  }
}
