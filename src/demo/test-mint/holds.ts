import type { Route } from './routes.ts';

/**
 * When a request is held: before anything is done, or after all is done but before the answer goes
 * out. A swap can also be held `during`: its inputs are PENDING then.
 */
export type HoldMoment = 'before' | 'during' | 'after';

/** A request that is stopped, or will be. */
export interface Hold {
  /** Resolves when a request is held. */
  readonly reached: Promise<void>;
  /** Lets it go on; where none has come yet, none will be held. */
  release(): void;
}

interface PlacedHold {
  reach: () => void;
  released: Promise<void>;
}

/** Stops requests where a test wants it, each hold one request. */
export class Holds {
  readonly #closing: AbortSignal;
  /** Not yet reached, by route and moment, first come first served. */
  readonly #placed = new Map<string, PlacedHold[]>();

  /** @param closing after it, what was held does nothing more */
  constructor(closing: AbortSignal) {
    this.#closing = closing;
  }

  /** Holds the next request of a route that is not held at that moment already. */
  place(route: Route, moment: HoldMoment): Hold {
    const reached = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    const hold = { reach: reached.resolve, released: released.promise };
    const waiting = this.#waitingAt(route, moment);
    waiting.push(hold);
    return {
      reached: reached.promise,
      release: () => {
        const index = waiting.indexOf(hold);
        if (index >= 0) {
          waiting.splice(index, 1);
        }
        released.resolve();
      },
    };
  }

  /** Waits where a hold is placed; throws where the mint has closed meanwhile. */
  async pass(route: Route, moment: HoldMoment): Promise<void> {
    const hold = this.#waitingAt(route, moment).shift();
    if (hold === undefined) {
      return;
    }
    hold.reach();
    await hold.released;
    this.#closing.throwIfAborted();
  }

  #waitingAt(route: Route, moment: HoldMoment): PlacedHold[] {
    const key = `${route} ${moment}`;
    const waiting = this.#placed.get(key) ?? [];
    this.#placed.set(key, waiting);
    return waiting;
  }
}
