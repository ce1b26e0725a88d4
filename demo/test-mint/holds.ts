import type { Route } from './routes.ts';

/**
 * When to hold a request: before handling it, or after handling it but before sending the response.
 * `during` applies to swaps only: the inputs are PENDING.
 */
export type HoldPoint = 'before' | 'during' | 'after';

export interface Hold {
  /** Resolves when a request is held. */
  readonly reached: Promise<void>;
  /** Lets the request continue. If no request has arrived yet, cancels the hold. */
  release(): void;
}

interface PendingHold {
  routePoint: string;
  reached: PromiseWithResolvers<void>;
  released: PromiseWithResolvers<void>;
}

/** Holds requests at the points that a test chooses. Each hold applies to one request. */
export class Holds {
  readonly #closing: AbortSignal;
  /** Holds without a request yet, oldest first. */
  readonly #pending = new Set<PendingHold>();

  /** @param closing if aborted, released requests do not continue */
  constructor(closing: AbortSignal) {
    this.#closing = closing;
  }

  add(route: Route, point: HoldPoint): Hold {
    const hold: PendingHold = {
      routePoint: `${route} ${point}`,
      reached: Promise.withResolvers(),
      released: Promise.withResolvers(),
    };
    this.#pending.add(hold);
    const release = () => {
      this.#pending.delete(hold);
      hold.released.resolve();
    };
    return { reached: hold.reached.promise, release };
  }

  /** Waits if a test holds this request. @throws if the mint closes meanwhile */
  async waitIfHeld(route: Route, point: HoldPoint): Promise<void> {
    const hold = [...this.#pending].find(({ routePoint }) => routePoint === `${route} ${point}`);
    if (hold !== undefined) {
      this.#pending.delete(hold);
      hold.reached.resolve();
      await hold.released.promise;
      this.#closing.throwIfAborted();
    }
  }
}
