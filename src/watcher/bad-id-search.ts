/**
 * Looks for the ids for which a mint refuses whole batches (NUT-29).
 *
 * Every refused batch is a group of suspects that holds a bad one. Its first half is asked next:
 * refused again, the bad one is in there, and the others are no suspects any more; answered, it is
 * among the rest. Each answer takes about half of a group away, until one id is refused by itself.
 */
export class BadIdSearch {
  /** Every suspect with its group, which shares no id with another. */
  readonly #groups = new Map<string, Set<string>>();

  /** How many ids are suspected. */
  get size(): number {
    return this.#groups.size;
  }

  isSuspect(quoteId: string): boolean {
    return this.#groups.has(quoteId);
  }

  /**
   * What to ask next; empty where nothing is suspected.
   *
   * @param due ids, the most urgent first: the group of the first that is suspected is looked at
   * @param most how many may be asked at once, 1 or more
   */
  next(due: readonly string[], most: number): string[] {
    const [longestSuspected] = this.#groups.keys();
    const quoteId = due.find((id) => this.#groups.has(id)) ?? longestSuspected ?? '';
    const group = [...(this.#groups.get(quoteId) ?? [])];
    return group.slice(0, Math.min(Math.ceil(group.length / 2), most));
  }

  /**
   * Takes in that a batch was refused, whether it came from {@link next} or not.
   *
   * @returns the bad id, where it stood alone
   */
  refused(batch: readonly string[]): string | null {
    for (const quoteId of batch) {
      this.clear([...(this.#groups.get(quoteId) ?? [])]);
    }
    const [first] = batch;
    if (batch.length === 1 && first !== undefined) {
      return first;
    }
    const group = new Set(batch);
    for (const quoteId of group) {
      this.#groups.set(quoteId, group);
    }
    return null;
  }

  /** Suspects these no more: the mint answered for them, or nobody wants to know any more. */
  clear(quoteIds: readonly string[]): void {
    for (const quoteId of quoteIds) {
      this.#groups.get(quoteId)?.delete(quoteId);
      this.#groups.delete(quoteId);
    }
  }

  /** Suspects nothing any more. */
  clearAll(): void {
    this.#groups.clear();
  }
}
