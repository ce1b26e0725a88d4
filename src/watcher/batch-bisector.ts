/**
 * Finds the quote ids for which a mint rejects whole batches (NUT-29). Halves a rejected batch until an id is
 * rejected alone. Ids in a half that the mint accepts are no longer suspects.
 */
export class BatchBisector {
  /** Parts of rejected batches that the mint must still accept or reject. */
  #groups: (readonly string[])[] = [];

  getSuspects(): ReadonlySet<string> {
    return new Set(this.#groups.flat());
  }

  /** Removes and returns the next group to send as a batch; null if there are no suspects. */
  takeNextGroup(): readonly string[] | null {
    return this.#groups.shift() ?? null;
  }

  /** Takes a group back that could not be sent. */
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
