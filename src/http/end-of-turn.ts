/**
 * Puts something off to the end of this turn of the event loop, where it is done for all requests of the turn, one
 * after another.
 *
 * It is for what fills the processor's caches, as the check of a signature does with its tables and a write with the
 * system's network: done within each request, it would find them filled with the rest of a request, and the rest with
 * its own, again and again.
 */
export class EndOfTurn {
  #tasks: (() => void)[] = [];

  /** @param task must not throw: others wait behind it */
  putOff(task: () => void): void {
    if (this.#tasks.push(task) === 1) {
      setImmediate(this.#doAll);
    }
  }

  readonly #doAll = () => {
    const tasks = this.#tasks;
    this.#tasks = [];
    for (const task of tasks) {
      task();
    }
  };
}
