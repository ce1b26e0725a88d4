import { AsyncLocalStorage } from 'node:async_hooks';
import { MachineClock } from './machine-clock.ts';

// Taken before `virtual-platform.ts` replaces them.
const realSetImmediate = setImmediate;

/** A process of the service, a mint, a wallet, or another part of the simulation that acts. A restarted process is a new actor. */
export class Actor {
  readonly name: string;
  /** That of its machine, so that it survives the actor. */
  readonly clock: MachineClock;
  isAlive = true;
  /** Until then, none of its code runs, although the world sees it as alive: a machine that was suspended. */
  pausedUntilMs = 0;
  /** Called at its death, once. */
  readonly #onDeath = new Set<() => void>();

  constructor(name: string, clock = new MachineClock()) {
    this.name = name;
    this.clock = clock;
  }

  /** @returns a function that removes the callback */
  onDeath(clean: () => void): () => void {
    this.#onDeath.add(clean);
    return () => this.#onDeath.delete(clean);
  }

  /** From now on, none of its code runs: all that it waits for never happens. */
  die(): void {
    this.isAlive = false;
    for (const clean of this.#onDeath) {
      clean();
    }
    this.#onDeath.clear();
  }
}

/** The actor whose code is running. Code that runs later because of it, such as a timer's, belongs to the same actor. */
const context = new AsyncLocalStorage<Actor>();

/** What belongs to no other actor. It never dies. */
export const WORLD = new Actor('world');

export function currentActor(): Actor {
  return context.getStore() ?? WORLD;
}

/** What a dead actor waits for. A new promise each time, because one for all would keep all that has waited for it. */
export function never(): Promise<never> {
  return new Promise(() => undefined);
}

export interface ScheduledEvent {
  atMs: number;
  /** Of two events at the same time, the one that was scheduled first comes first. */
  sequence: number;
  readonly actor: Actor;
  run: (() => void) | null;
  /** What the program has passed to `setTimeout`, to tell timers apart. */
  readonly callback: unknown;
}

/** The time at which the run should stop has come. */
export class StoppedError extends Error {
  override readonly name = 'StoppedError';
}

/**
 * Virtual time. Runs events one after the other, in the order of their times, and after each event all code that it makes
 * ready. So nothing waits, and the same events always happen in the same order.
 */
export class Scheduler {
  nowMs = 0;
  stopAtMs = Number.POSITIVE_INFINITY;
  /** Whose event is running, for errors that belong to no asynchronous context. */
  runningActor = WORLD;
  onUncaughtError: (error: unknown) => void = (error) => {
    throw error;
  };
  readonly #queue: ScheduledEvent[] = [];
  #sequence = 0;

  schedule(
    delayMs: number,
    run: () => void,
    actor = currentActor(),
    callback: unknown = run,
  ): ScheduledEvent {
    const atMs = this.nowMs + Math.max(0, delayMs);
    const event: ScheduledEvent = { atMs, sequence: this.#sequence, actor, run, callback };
    this.#sequence += 1;
    this.#push(event);
    return event;
  }

  cancel(event: ScheduledEvent): void {
    event.run = null;
  }

  /** Resolves in virtual time, for the current actor. */
  sleep(delayMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.schedule(delayMs, resolve);
    return promise;
  }

  /** Runs all events until this time. @throws StoppedError */
  async runUntil(untilMs: number): Promise<void> {
    const getEndMs = () => Math.min(untilMs, this.stopAtMs);
    for (let next = this.#queue[0]; next && next.atMs <= getEndMs(); next = this.#queue[0]) {
      await this.#runNext();
    }
    this.nowMs = getEndMs();
    if (this.nowMs < untilMs) {
      throw new StoppedError();
    }
  }

  /** Starts code of an actor. Its failure is a bug of the simulation. */
  start(actor: Actor, work: () => Promise<void>): void {
    this.schedule(0, () => void work(), actor);
  }

  listPending(): ScheduledEvent[] {
    return this.#queue.filter(({ run, actor }) => run !== null && actor.isAlive);
  }

  async #runNext(): Promise<void> {
    const event = this.#pop();
    const { run, actor, atMs } = event;
    if (run === null || !actor.isAlive) {
      return;
    }
    if (actor.pausedUntilMs > atMs) {
      event.atMs = actor.pausedUntilMs;
      event.sequence = this.#sequence;
      this.#sequence += 1;
      this.#push(event);
      return;
    }
    this.nowMs = atMs;
    this.runningActor = actor;
    try {
      context.run(actor, run);
    } catch (error) {
      this.onUncaughtError(error);
    }
    // All microtasks and `process.nextTick` callbacks run before a new turn of the event loop.
    await new Promise(realSetImmediate);
  }

  #push(event: ScheduledEvent): void {
    const queue = this.#queue;
    let index = queue.length;
    queue.push(event);
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!isBefore(event, queue[parent] as ScheduledEvent)) {
        break;
      }
      queue[index] = queue[parent] as ScheduledEvent;
      index = parent;
    }
    queue[index] = event;
  }

  #pop(): ScheduledEvent {
    const queue = this.#queue;
    const first = queue[0] as ScheduledEvent;
    const last = queue.pop() as ScheduledEvent;
    if (queue.length === 0) {
      return first;
    }
    let index = 0;
    for (;;) {
      const left = 2 * index + 1;
      if (left >= queue.length) {
        break;
      }
      const right = left + 1;
      const smaller =
        right < queue.length &&
        isBefore(queue[right] as ScheduledEvent, queue[left] as ScheduledEvent)
          ? right
          : left;
      if (!isBefore(queue[smaller] as ScheduledEvent, last)) {
        break;
      }
      queue[index] = queue[smaller] as ScheduledEvent;
      index = smaller;
    }
    queue[index] = last;
    return first;
  }
}

function isBefore(one: ScheduledEvent, other: ScheduledEvent): boolean {
  return one.atMs === other.atMs ? one.sequence < other.sequence : one.atMs < other.atMs;
}
