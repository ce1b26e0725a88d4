import type { Route } from './routes.ts';

/**
 * When to hold a request: before the mint handles it, or after that but before the mint sends the response.
 * `during` is only for swaps and melts, and holds one while its inputs are PENDING.
 */
export type HoldPoint = 'before' | 'during' | 'after';

export interface Hold {
  /** Resolves when a request is held. */
  readonly reached: Promise<void>;
  /** Lets the request continue. If no request has arrived yet, cancels the hold. */
  release(): void;
}

interface PendingHold {
  /** Route and {@link HoldPoint}. */
  key: string;
  reached: PromiseWithResolvers<void>;
  released: PromiseWithResolvers<void>;
}

/** Holds requests at the points that a test chooses. Each hold applies to one request. */
export class Holds {
  readonly #closeSignal: AbortSignal;
  /** Holds that no request has reached yet, oldest first. */
  readonly #pending = new Set<PendingHold>();

  /** @param closeSignal aborts when the mint closes; a released request then fails */
  constructor(closeSignal: AbortSignal) {
    this.#closeSignal = closeSignal;
  }

  add(route: Route, point: HoldPoint): Hold {
    const hold: PendingHold = {
      key: `${route} ${point}`,
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

  /** If a test holds this request, waits for its release. @throws if the mint closed before the release */
  async waitIfHeld(route: Route, point: HoldPoint): Promise<void> {
    const hold = [...this.#pending].find(({ key }) => key === `${route} ${point}`);
    if (hold !== undefined) {
      this.#pending.delete(hold);
      hold.reached.resolve();
      await hold.released.promise;
      this.#closeSignal.throwIfAborted();
    }
  }
}
