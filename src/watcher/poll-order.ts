import { OPERATOR_MINT_LIMITS } from '../mints/limits.ts';

/** The `batchLimit` of a quote that may be in batches of any size: no batch contains more. */
export const NO_BATCH_LIMIT = OPERATOR_MINT_LIMITS.maxPollBatchSize;

export interface PollableQuote extends HeapItem {
  heap: HeapName | null;
  /** How many quotes a batch with it may have, because the mint failed for a larger one; 0: it is read alone. */
  batchLimit: number;
}

type HeapName = 'young' | 'others' | 'suspect' | 'alone';

/**
 * The order in which due quotes are polled: young ones first. Quotes for which the mint may have failed a batch
 * (suspects) are polled in turn with all others, in smaller batches.
 */
export class PollOrder<Item extends PollableQuote> {
  readonly #heaps: Record<HeapName, DueHeap<Item>> = {
    young: new DueHeap(),
    others: new DueHeap(),
    suspect: new DueHeap(),
    alone: new DueHeap(),
  };
  #isSuspectsTurn = false;

  get firstDueAtMs(): number {
    return Math.min(
      ...Object.values(this.#heaps).map((heap) => heap.peek()?.dueAtMs ?? Number.POSITIVE_INFINITY),
    );
  }

  /** @param isYoung whether it may just have been paid */
  add(quote: Item, isYoung: boolean): void {
    quote.heap = isYoung ? 'young' : 'others';
    if (quote.batchLimit < NO_BATCH_LIMIT) {
      quote.heap = quote.batchLimit === 0 ? 'alone' : 'suspect';
    }
    this.#heaps[quote.heap].push(quote);
  }

  remove(quote: Item): void {
    if (quote.heap !== null) {
      this.#heaps[quote.heap].remove(quote);
      quote.heap = null;
    }
  }

  /**
   * Takes quotes that are due until then: for a `batch`; those that batches cannot contain, to read them `alone`; or
   * `any`, to read each alone while the mint gets no batches.
   */
  take(kind: 'batch' | 'alone' | 'any', max: number, untilMs: number): Item[] {
    if (kind === 'alone') {
      return this.#take('alone', max, untilMs);
    }
    if (kind === 'any') {
      return this.#takeYoungFirst(max, untilMs, ['others', 'suspect', 'alone']);
    }
    this.#isSuspectsTurn = !this.#isSuspectsTurn;
    const suspects = this.#isSuspectsTurn ? this.#take('suspect', max, untilMs) : [];
    if (suspects.length > 0) {
      return suspects;
    }
    const others = this.#takeYoungFirst(max, untilMs, ['others']);
    return others.length > 0 ? others : this.#take('suspect', max, untilMs);
  }

  #takeYoungFirst(max: number, untilMs: number, otherHeaps: readonly HeapName[]): Item[] {
    // A quarter is kept for others, so that young quotes cannot delay them forever.
    const taken = this.#take('young', Math.ceil(max * 0.75), untilMs);
    for (const heap of [...otherHeaps, 'young'] as const) {
      taken.push(...this.#take(heap, max - taken.length, untilMs));
    }
    return taken;
  }

  #take(heapName: HeapName, max: number, untilMs: number): Item[] {
    const heap = this.#heaps[heapName];
    const taken: Item[] = [];
    let limit = max;
    let next = heap.peek();
    while (next !== undefined && next.dueAtMs <= untilMs) {
      limit = heapName === 'suspect' ? Math.min(limit, next.batchLimit) : limit;
      if (taken.length >= limit) {
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
  /** Must not change while the element is in a heap. */
  dueAtMs: number;
  /** Its place, which only the heap changes; -1 if it is in none. */
  heapIndex: number;
}

/** A binary heap by due time, from which any element can be removed. */
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
