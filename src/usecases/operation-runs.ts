import { randomUUID } from 'node:crypto';
import type { Clock } from '../domain/clock.ts';
import type { DrivenOperations } from '../store/driven-operations.ts';

/** From one try to the next: the first after this, each later one after twice the time. */
const FIRST_RETRY_MS = 5_000;

/** A mint that is away for a day is asked often enough all the same. */
const LONGEST_RETRY_MS = 10 * 60_000;

/**
 * Where an answer was lost and the mint then says that nothing was done, it is asked again after this
 * before it is believed: far longer than a request can be on its way.
 */
const DOUBT_FOR_MS = 60_000;

/** Operations that are looked at together: one mint serves them all. */
const AT_ONCE = 4;

/** Operations that are read at a time. */
const LOT = 100;

/** Why a run goes no further with an operation that it does not have any more. */
export const OTHER_RUN = 'another run has it';

/** Whether anything of an operation may have been sent to its mint before. */
export type Step = 'begin' | 'resume';

/** What is to be known of an operation to decide when to look again. */
export interface Postponed {
  /** How often its end was looked for in vain. */
  tries: number;
  /** When it first seemed to have come to nothing. */
  doubtedAtMs: number | null;
}

/**
 * When an operation that cannot be ended now is looked at next.
 *
 * @param finding `doubted`: it seems to have come to nothing; `unknown`: nobody knows
 */
export function nextLook(
  { tries, doubtedAtMs }: Postponed,
  finding: 'doubted' | 'unknown',
  nowMs: number,
): { nextTryAtMs: number; doubtedAtMs: number | null } {
  if (finding === 'doubted') {
    // A doubt of the future is one of a clock that was ahead.
    return {
      nextTryAtMs: nowMs + DOUBT_FOR_MS,
      doubtedAtMs: Math.min(doubtedAtMs ?? nowMs, nowMs),
    };
  }
  const waitMs = Math.min(FIRST_RETRY_MS * 2 ** tries, LONGEST_RETRY_MS);
  return { nextTryAtMs: nowMs + waitMs, doubtedAtMs: null };
}

/** Whether an operation seemed to have come to nothing so long ago that a second look settles it. */
export function isDoubtedLongEnough({ doubtedAtMs }: Postponed, nowMs: number): boolean {
  return doubtedAtMs !== null && nowMs - doubtedAtMs >= DOUBT_FOR_MS;
}

/**
 * Runs operations with mints: each is driven by one run at a time, in this process and in all, and
 * whoever asks for one that is under way here waits for it.
 */
export class OperationRuns<End> {
  readonly #driven: Pick<DrivenOperations, 'drive' | 'due'>;
  readonly #work: (id: string, driver: string, step: Step) => Promise<End | null>;
  readonly #onFailure: (id: string, error: unknown) => void;
  readonly #clock: Clock;
  readonly #running = new Map<string, Promise<End | null>>();

  /**
   * @param parts.work brings an operation further; null where it was not open
   * @param parts.onFailure told of one whose work threw; it is tried again later
   */
  constructor(parts: {
    driven: Pick<DrivenOperations, 'drive' | 'due'>;
    work: (id: string, driver: string, step: Step) => Promise<End | null>;
    onFailure: (id: string, error: unknown) => void;
    clock: Clock;
  }) {
    this.#driven = parts.driven;
    this.#work = parts.work;
    this.#onFailure = parts.onFailure;
    this.#clock = parts.clock;
  }

  /**
   * Writes an operation down and works on it.
   *
   * @param open writes it down, for this driver
   * @returns null where it could not be written down
   */
  begin(id: string, open: (driver: string) => Promise<boolean>): Promise<End | null> {
    // Whoever asks for the same from now on waits for this run.
    return this.#once(id, async () => {
      const driver = randomUUID();
      return (await open(driver)) ? this.#work(id, driver, 'begin') : null;
    });
  }

  /** Goes on with an operation; null where another process is at it, or it has ended. */
  resume(id: string): Promise<End | null> {
    return this.#once(id, async () => {
      const driver = randomUUID();
      return (await this.#driven.drive(id, driver)) ? this.#work(id, driver, 'resume') : null;
    });
  }

  /** Goes on with all whose time has come, until told to stop. */
  async run(signal: AbortSignal): Promise<void> {
    const nowMs = this.#clock();
    const due = await this.#driven.due(nowMs, nowMs + LONGEST_RETRY_MS, LOT);
    const waiting = due.values();
    const worker = async () => {
      for (const id of waiting) {
        if (signal.aborted) {
          return;
        }
        await this.resume(id).catch((error: unknown) => this.#onFailure(id, error));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  }

  /** Resolves when none is under way in this process. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#running.values());
  }

  #once(id: string, start: () => Promise<End | null>): Promise<End | null> {
    const running = this.#running.get(id) ?? start().finally(() => this.#running.delete(id));
    this.#running.set(id, running);
    return running;
  }
}
