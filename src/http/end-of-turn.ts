/**
 * Puts something off to the end of this turn of the event loop, where it is done for all requests of the turn, one
 * after another.
 *
 * It is for what fills the processor's caches, as the check of a signature does with its tables: done within each
 * request, it would find them filled with the rest of a request, and the rest with the tables, again and again.
 */
export class EndOfTurn {
  #end: Promise<void> | null = null;

  /** Resolves at the end of this turn. */
  come(): Promise<void> {
    this.#end ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#end = null;
        resolve();
      });
    });
    return this.#end;
  }
}
