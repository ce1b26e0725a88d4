import { Counts } from '../domain/counts.ts';

/** A turn that has not begun. */
export interface ComingTurn {
  /** Resolves as the turn begins, and fails with the reason of {@link giveUp}. */
  readonly begins: Promise<void>;
  /** Leaves the queue. Does nothing where the turn has begun: it is to be given back all the same. */
  giveUp(reason: Error): void;
}

/** Lets so many requests of each party run at a time; the others wait for their turn, in order. */
export class Turns {
  readonly #maxAtATime: number;
  readonly #running = new Counts();
  /** How the turns of those begin who wait, the first one first. */
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(maxAtATime: number) {
    this.#maxAtATime = maxAtATime;
  }

  /**
   * Takes a turn, which is to be given back once it has begun.
   *
   * @returns null where it has begun already
   */
  take(party: string): ComingTurn | null {
    if (this.#running.of(party) < this.#maxAtATime) {
      this.#running.add(party);
      return null;
    }
    const { promise: begins, resolve: begin, reject } = Promise.withResolvers<void>();
    this.#waiting.set(party, (this.#waiting.get(party) ?? new Set()).add(begin));
    const giveUp = (reason: Error) => {
      if (this.#leaveQueue(party, begin)) {
        reject(reason);
      }
    };
    return { begins, giveUp };
  }

  /** Passes a turn that was taken on to who waits the longest. */
  giveBack(party: string): void {
    const [next] = this.#waiting.get(party) ?? [];
    if (next !== undefined) {
      this.#leaveQueue(party, next);
      next();
      return;
    }
    this.#running.remove(party);
  }

  /** Whether it was in the queue. */
  #leaveQueue(party: string, begin: () => void): boolean {
    const queue = this.#waiting.get(party);
    const wasWaiting = queue?.delete(begin) ?? false;
    if (queue?.size === 0) {
      this.#waiting.delete(party);
    }
    return wasWaiting;
  }
}
