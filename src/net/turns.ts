import { Counts } from '../domain/counts.ts';

/** Lets so many requests of each party run at a time; the others wait for their turn, in order. */
export class Turns {
  readonly #maxAtATime: number;
  readonly #running = new Counts();
  /** Who waits, the first one first. */
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(maxAtATime: number) {
    this.#maxAtATime = maxAtATime;
  }

  /**
   * Waits for a turn, which is to be given back.
   *
   * @throws the signal's reason where it is aborted before: then there is nothing to give back
   */
  async take(party: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#running.of(party) < this.#maxAtATime) {
      this.#running.add(party);
      return;
    }
    const turn = Promise.withResolvers<void>();
    const giveUp = () => {
      this.#leaveQueue(party, turn.resolve);
      turn.reject(signal.reason);
    };
    this.#waiting.set(party, (this.#waiting.get(party) ?? new Set()).add(turn.resolve));
    signal.addEventListener('abort', giveUp);
    try {
      await turn.promise;
    } finally {
      signal.removeEventListener('abort', giveUp);
    }
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

  #leaveQueue(party: string, begin: () => void): void {
    const queue = this.#waiting.get(party);
    queue?.delete(begin);
    if (queue?.size === 0) {
      this.#waiting.delete(party);
    }
  }
}
