/** An element of at most one {@link DueHeap}. */
export interface DueItem {
  /** Must not change while the element is in a heap. */
  dueAtMs: number;
  /** Its place, which only the heap changes; -1 if it is in none. */
  heapIndex: number;
}

/** A binary heap by due time, from which any element can be removed. */
export class DueHeap<Item extends DueItem> {
  readonly #items: Item[] = [];

  peek(): Item | undefined {
    return this.#items[0];
  }

  push(item: Item): void {
    this.#items.push(item);
    this.#moveUp(item, this.#items.length - 1);
  }

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
    const parent = this.#items[(from - 1) >> 1];
    if (parent === undefined || parent.dueAtMs <= item.dueAtMs) {
      this.#place(item, from);
      return;
    }
    const parentIndex = parent.heapIndex;
    this.#place(parent, from);
    this.#moveUp(item, parentIndex);
  }

  #moveDown(item: Item, from: number): void {
    const left = this.#items[2 * from + 1];
    const right = this.#items[2 * from + 2];
    const child = left && right && right.dueAtMs < left.dueAtMs ? right : left;
    if (child === undefined || item.dueAtMs <= child.dueAtMs) {
      this.#place(item, from);
      return;
    }
    const childIndex = child.heapIndex;
    this.#place(child, from);
    this.#moveDown(item, childIndex);
  }

  #place(item: Item, index: number): void {
    this.#items[index] = item;
    item.heapIndex = index;
  }
}
