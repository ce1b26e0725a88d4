/**
 * Finds the ids for which a mint rejects whole batches (NUT-29): a rejected batch is halved until an id
 * is rejected alone. Halves that are answered are cleared on the way.
 */
export class BatchBisector {
  /** Groups of ids that were rejected together. Each id is in one group at most. */
  #groups: (readonly string[])[] = [];
  readonly #suspects = new Set<string>();

  get hasSuspects(): boolean {
    return this.#groups.length > 0;
  }

  isSuspect(quoteId: string): boolean {
    return this.#suspects.has(quoteId);
  }

  /** Takes the next group to send as a batch of its own; null if there are no suspects. */
  next(): readonly string[] | null {
    const group = this.#groups.shift();
    for (const id of group ?? []) {
      this.#suspects.delete(id);
    }
    return group ?? null;
  }

  /** Puts back a group that was taken and not sent. */
  putBack(group: readonly string[]): void {
    this.#add(group);
  }

  /**
   * Takes in that the mint rejected a batch.
   *
   * @returns the bad id, if the batch had only one
   */
  rejected(batch: readonly string[]): string | null {
    const [first] = batch;
    if (first !== undefined && batch.length === 1) {
      return first;
    }
    const middle = Math.ceil(batch.length / 2);
    this.#add(batch.slice(0, middle));
    this.#add(batch.slice(middle));
    return null;
  }

  clear(): void {
    this.#groups = [];
    this.#suspects.clear();
  }

  #add(group: readonly string[]): void {
    this.#groups.push(group);
    for (const id of group) {
      this.#suspects.add(id);
    }
  }
}
