export class AsyncQueue<T> {
  readonly items: T[] = [];
  readonly #waitingConsumers: ((item: T) => void)[] = [];

  push(item: T): void {
    const resolveNext = this.#waitingConsumers.shift();
    if (resolveNext === undefined) {
      this.items.push(item);
    } else {
      resolveNext(item);
    }
  }

  async next(): Promise<T> {
    return this.items.length > 0
      ? (this.items.shift() as T)
      : await new Promise((resolve) => this.#waitingConsumers.push(resolve));
  }
}
