/** Counts by key. Keys whose count is zero take no memory. */
export class KeyedCounter {
  readonly #counts = new Map<string, number>();

  get(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  increment(key: string): void {
    this.#counts.set(key, this.get(key) + 1);
  }

  decrement(key: string): void {
    const remaining = this.get(key) - 1;
    if (remaining > 0) {
      this.#counts.set(key, remaining);
    } else {
      this.#counts.delete(key);
    }
  }
}
