/** An element of at most one {@link DueHeap}. */
export interface DueItem {
  /** When it is due, on the monotonic clock. Must not change while the element is in a heap. */
  dueAtMs: number;
  /** Its place in the heap, which only the heap changes; -1 if it is in none. */
  heapIndex: number;
}

/** A binary heap by due time, from which any element can be removed. */
export class DueHeap<Item extends DueItem> {
  readonly #items: Item[] = [];

  /** Returns the element that is due first. */
  peek(): Item | undefined {
    return this.#items[0];
  }

  push(item: Item): void {
    this.#items.push(item);
    this.#moveUp(item, this.#items.length - 1);
  }

  /** Removes an element, which must be in this heap. */
  remove(item: Item): void {
    const index = item.heapIndex;
    const last = this.#items.pop() as Item;
    item.heapIndex = -1;
    if (last !== item) {
      this.#moveUp(last, index);
      this.#moveDown(last, last.heapIndex);
    }
  }

  #moveUp(item: Item, from: number): void {
    let index = from;
    while (index > 0) {
      const parentIndex = (index - 1) >> 1;
      const parent = this.#items[parentIndex] as Item;
      if (parent.dueAtMs <= item.dueAtMs) {
        break;
      }
      this.#place(parent, index);
      index = parentIndex;
    }
    this.#place(item, index);
  }

  #moveDown(item: Item, from: number): void {
    let index = from;
    for (;;) {
      const leftIndex = 2 * index + 1;
      const left = this.#items[leftIndex];
      const right = this.#items[leftIndex + 1];
      const child =
        right !== undefined && left !== undefined && right.dueAtMs < left.dueAtMs ? right : left;
      if (child === undefined || item.dueAtMs <= child.dueAtMs) {
        break;
      }
      const childIndex = child === left ? leftIndex : leftIndex + 1;
      this.#place(child, index);
      index = childIndex;
    }
    this.#place(item, index);
  }

  #place(item: Item, index: number): void {
    this.#items[index] = item;
    item.heapIndex = index;
  }
}
