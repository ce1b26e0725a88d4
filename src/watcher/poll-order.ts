import { type HeapName, NO_BATCH_LIMIT, type WatchedQuote } from './watched-quote.ts';

/**
 * The order in which due quotes are polled: first the urgent ones, which may just have been paid. Quotes for which the
 * mint may have failed a batch (suspects) are polled in turn with all others, in smaller batches.
 */
export class PollOrder {
  readonly #heaps: Record<HeapName, DueHeap<WatchedQuote>> = {
    urgent: new DueHeap(),
    normal: new DueHeap(),
    suspect: new DueHeap(),
    alone: new DueHeap(),
  };
  #isSuspectsTurn = false;
  /** How many quotes that are not urgent may be taken first. Fractions add up, because a poll may take only one or two. */
  #shareOfOthers = 0;

  /** Infinite if there are no quotes. */
  get firstDueAtMs(): number {
    const dueTimesMs = Object.values(this.#heaps).map((heap) => heap.peek()?.dueAtMs ?? Infinity);
    return Math.min(...dueTimesMs);
  }

  add(quote: WatchedQuote, { isUrgent }: { isUrgent: boolean }): void {
    quote.heap = isUrgent ? 'urgent' : 'normal';
    if (quote.batchLimit < NO_BATCH_LIMIT) {
      quote.heap = quote.batchLimit === 0 ? 'alone' : 'suspect';
    }
    this.#heaps[quote.heap].push(quote);
  }

  remove(quote: WatchedQuote): void {
    if (quote.heap !== null) {
      this.#heaps[quote.heap].remove(quote);
      quote.heap = null;
    }
  }

  /**
   * Removes and returns up to `max` quotes that are due by `untilMs`: with `batch`, those for one batch; with `alone`,
   * those that must not be in a batch; with `any`, quotes of all kinds, to read each alone while the mint gets no batches.
   */
  take(kind: 'batch' | 'alone' | 'any', max: number, untilMs: number): WatchedQuote[] {
    if (kind === 'alone') {
      return this.#takeFrom('alone', max, untilMs);
    }
    if (kind === 'any') {
      return this.#takeUrgentFirst(max, untilMs, ['normal', 'suspect', 'alone']);
    }
    this.#isSuspectsTurn = !this.#isSuspectsTurn;
    const suspects = this.#isSuspectsTurn ? this.#takeFrom('suspect', max, untilMs) : [];
    if (suspects.length > 0) {
      return suspects;
    }
    const unsuspected = this.#takeUrgentFirst(max, untilMs, ['normal']);
    return unsuspected.length > 0 ? unsuspected : this.#takeFrom('suspect', max, untilMs);
  }

  #takeUrgentFirst(max: number, untilMs: number, otherHeaps: readonly HeapName[]): WatchedQuote[] {
    // A quarter is kept for others, so that urgent quotes cannot delay them forever.
    this.#shareOfOthers += max / 4;
    const kept = Math.floor(this.#shareOfOthers);
    this.#shareOfOthers -= kept;
    const taken = this.#takeFrom('urgent', max - kept, untilMs);
    while (taken.length < max) {
      const next = this.#findFirstDue(otherHeaps);
      if (next === null || next.dueAtMs > untilMs) {
        break;
      }
      this.remove(next);
      taken.push(next);
    }
    return [...taken, ...this.#takeFrom('urgent', max - taken.length, untilMs)];
  }

  #findFirstDue(heapNames: readonly HeapName[]): WatchedQuote | null {
    let first: WatchedQuote | null = null;
    for (const heapName of heapNames) {
      const candidate = this.#heaps[heapName].peek();
      if (candidate !== undefined && candidate.dueAtMs < (first?.dueAtMs ?? Infinity)) {
        first = candidate;
      }
    }
    return first;
  }

  #takeFrom(heapName: HeapName, max: number, untilMs: number): WatchedQuote[] {
    const heap = this.#heaps[heapName];
    const taken: WatchedQuote[] = [];
    let maxTaken = max;
    let next = heap.peek();
    while (next !== undefined && next.dueAtMs <= untilMs) {
      if (heapName === 'suspect') {
        maxTaken = Math.min(maxTaken, next.batchLimit);
      }
      if (taken.length >= maxTaken) {
        break;
      }
      this.remove(next);
      taken.push(next);
      next = heap.peek();
    }
    return taken;
  }
}

interface HeapItem {
  /** Must not change while the item is in a heap. */
  dueAtMs: number;
  /** Its index in `#items`, which only the heap changes; -1 if it is in no heap. */
  heapIndex: number;
}

/** A binary heap: the item that is due first is on top. Any item can be removed. */
export class DueHeap<Item extends HeapItem> {
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
    const parent = this.#items[Math.floor((from - 1) / 2)];
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
