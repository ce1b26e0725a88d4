/**
 * Finds the ids for which a mint rejects whole batches (NUT-29): halves a rejected batch until an
 * id is rejected alone. A half that the mint accepts is not suspect any more.
 */
export class BatchBisector {
  /** Groups of ids that were rejected together. */
  #groups: (readonly string[])[] = [];

  getSuspects(): ReadonlySet<string> {
    return new Set(this.#groups.flat());
  }

  /** Removes and returns the next group to send as a batch; null if there are no suspects. */
  takeNextGroup(): readonly string[] | null {
    return this.#groups.shift() ?? null;
  }

  /** Returns a group that was taken and not sent. */
  putBack(group: readonly string[]): void {
    this.#groups.push(group);
  }

  /** Splits a batch that the mint rejected. If the batch has only one id, returns that id. */
  splitRejected(batch: readonly string[]): string | null {
    const [first] = batch;
    if (first !== undefined && batch.length === 1) {
      return first;
    }
    const middle = Math.ceil(batch.length / 2);
    this.#groups.push(batch.slice(0, middle), batch.slice(middle));
    return null;
  }

  clear(): void {
    this.#groups = [];
  }
}
