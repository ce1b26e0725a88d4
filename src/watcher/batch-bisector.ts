/**
 * Finds the quote ids for which a mint rejects whole batches (NUT-29). Halves a rejected batch until an id is
 * rejected alone. Ids in a half that the mint accepts are no longer suspects.
 */
export class BatchBisector {
  /** Parts of rejected batches that the mint must still accept or reject. */
  #groups: (readonly string[])[] = [];
  readonly #suspects = new Set<string>();

  /** The number of suspects, without a group that was taken. */
  get size(): number {
    return this.#suspects.size;
  }

  has(quoteId: string): boolean {
    return this.#suspects.has(quoteId);
  }

  /** Removes and returns the next group to send as a batch; empty if there are no suspects. */
  takeNextGroup(): readonly string[] {
    const group = this.#groups.shift() ?? [];
    for (const quoteId of group) {
      this.#suspects.delete(quoteId);
    }
    return group;
  }

  /** Takes a group back that could not be sent. */
  putBack(group: readonly string[]): void {
    this.#groups.push(group);
    for (const quoteId of group) {
      this.#suspects.add(quoteId);
    }
  }

  /** Splits a batch that the mint rejected. If the batch has only one id, returns that id. */
  splitRejected(batch: readonly string[]): string | null {
    const [first] = batch;
    if (first !== undefined && batch.length === 1) {
      return first;
    }
    const middle = Math.ceil(batch.length / 2);
    this.putBack(batch.slice(0, middle));
    this.putBack(batch.slice(middle));
    return null;
  }

  /** Removes and returns all suspects. */
  clear(): string[] {
    const suspects = [...this.#suspects];
    this.#groups = [];
    this.#suspects.clear();
    return suspects;
  }
}
