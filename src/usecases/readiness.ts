import { setTimeout as delay } from 'node:timers/promises';
import type { Store } from '../store/store.ts';

/** A database that has not answered by then serves nobody. Those who ask wait longer. */
const ANSWER_WITHIN_MS = 2_000;

/** Strangers may ask as often as they like: the database is asked once in this time. */
const ASK_EVERY_MS = 1_000;

/** What is looked at. `unknown`: the database, which would have to tell, does not answer. */
type CheckResult = 'ok' | 'failing' | 'unknown';

/** Whether this process is to be sent requests, and why not. */
export interface Standing {
  status: 'ready' | 'starting' | 'failing' | 'stopping';
  checks: {
    /** It answers. */
    database: CheckResult;
    /** It has all tables that this version needs. */
    migrations: CheckResult;
    /** What other processes tell through the database (LISTEN) is heard. */
    listen: CheckResult;
  };
}

/** Says whether this process is to be sent requests: from the end of its start to the beginning of its stop. */
export class Readiness {
  readonly #migrations: Pick<Store['migrations'], 'areApplied'>;
  readonly #isListening: () => boolean;
  readonly #monotonicMs: () => number;
  #stage: 'starting' | 'serving' | 'stopping' = 'starting';
  /** A question that a vanished server leaves open for half a minute is not asked again meanwhile. */
  #asking: Promise<void> | null = null;
  #database: Pick<Standing['checks'], 'database' | 'migrations'> = UNREACHABLE;
  #askedAtMs = Number.NEGATIVE_INFINITY;

  /**
   * @param parts.isListening whether notifications of other processes are heard
   * @param parts.monotonicMs a clock that never goes back
   */
  constructor(parts: {
    migrations: Pick<Store['migrations'], 'areApplied'>;
    isListening: () => boolean;
    monotonicMs: () => number;
  }) {
    this.#migrations = parts.migrations;
    this.#isListening = parts.isListening;
    this.#monotonicMs = parts.monotonicMs;
  }

  /** The start is over. */
  serve(): void {
    this.#stage = 'serving';
  }

  /** The stop has begun: it is never ready again. */
  stop(): void {
    this.#stage = 'stopping';
  }

  get isStopping(): boolean {
    return this.#stage === 'stopping';
  }

  /** Looks at everything; answers within seconds whatever does not. */
  async standing(): Promise<Standing> {
    await this.#askDatabase();
    const listen = this.#isListening() ? 'ok' : 'failing';
    const checks: Standing['checks'] = { ...this.#database, listen };
    if (this.#stage !== 'serving') {
      return { status: this.#stage, checks };
    }
    const isReady = Object.values(checks).every((result) => result === 'ok');
    return { status: isReady ? 'ready' : 'failing', checks };
  }

  async #askDatabase(): Promise<void> {
    const isRecent = this.#monotonicMs() - this.#askedAtMs < ASK_EVERY_MS;
    if (isRecent && this.#asking === null) {
      return;
    }
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = null;
    });
    const isLate = await Promise.race([
      this.#asking.then(() => false),
      delay(ANSWER_WITHIN_MS, true, { ref: false }),
    ]);
    if (isLate) {
      this.#database = UNREACHABLE;
    }
  }

  async #ask(): Promise<void> {
    this.#askedAtMs = this.#monotonicMs();
    this.#database = await this.#migrations.areApplied().then(
      (areApplied) => ({ database: 'ok', migrations: areApplied ? 'ok' : 'failing' }),
      () => UNREACHABLE,
    );
  }
}

const UNREACHABLE = { database: 'failing', migrations: 'unknown' } as const;
