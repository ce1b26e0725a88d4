import type { Route } from './routes.ts';

/**
 * When a request is held: before anything is done, or after all is done but before the answer is sent.
 * `during` is for swaps: the inputs are PENDING.
 */
export type HoldMoment = 'before' | 'during' | 'after';

/** A request that is held, or will be. */
export interface Hold {
  /** Resolves when a request is held. */
  readonly reached: Promise<void>;
  /** Lets the request continue; if none has come yet, none will be held. */
  release(): void;
}

interface PlacedHold {
  place: string;
  reached: PromiseWithResolvers<void>;
  released: PromiseWithResolvers<void>;
}

/** Stops requests where a test asks for it, each hold one request. */
export class Holds {
  readonly #closing: AbortSignal;
  /** Not yet reached, oldest first. */
  readonly #waiting = new Set<PlacedHold>();

  /** @param closing when aborted, held requests do nothing more */
  constructor(closing: AbortSignal) {
    this.#closing = closing;
  }

  place(route: Route, moment: HoldMoment): Hold {
    const hold: PlacedHold = {
      place: `${route} ${moment}`,
      reached: Promise.withResolvers(),
      released: Promise.withResolvers(),
    };
    this.#waiting.add(hold);
    const release = () => {
      this.#waiting.delete(hold);
      hold.released.resolve();
    };
    return { reached: hold.reached.promise, release };
  }

  /** Waits if a hold is placed here; throws if the mint closed meanwhile. */
  async pass(route: Route, moment: HoldMoment): Promise<void> {
    const hold = [...this.#waiting].find(({ place }) => place === `${route} ${moment}`);
    if (hold !== undefined) {
      this.#waiting.delete(hold);
      hold.reached.resolve();
      await hold.released.promise;
      this.#closing.throwIfAborted();
    }
  }
}
