import { OPERATOR_MINT_LIMITS } from '../mints/limits.ts';
import { DueHeap, type DueItem } from './due-heap.ts';
import { SHARE_OF_OTHERS } from './limits.ts';

/** At least as many quotes as any batch contains. */
export const NO_BATCH_LIMIT = OPERATOR_MINT_LIMITS.maxPollBatchSize;

export interface PollableQuote extends DueItem {
  /** Null while it is being polled. */
  heap: HeapName | null;
  /** How many quotes a batch with it may have, because the mint failed for a larger one; 0: it is read alone. */
  batchLimit: number;
}

type HeapName = 'young' | 'others' | 'suspect' | 'alone';

/**
 * The order in which the due quotes of a mint are polled: young ones first, with a part kept for the others. Quotes for
 * which the mint may have failed a batch (suspects) are polled in turn with these, in smaller batches.
 */
export class PollOrder<Quote extends PollableQuote> {
  readonly #heaps: Record<HeapName, DueHeap<Quote>> = {
    young: new DueHeap(),
    others: new DueHeap(),
    suspect: new DueHeap(),
    alone: new DueHeap(),
  };
  #isSuspectsTurn = false;

  /** Infinite without quotes. */
  get firstDueAtMs(): number {
    return Math.min(
      ...Object.values(this.#heaps).map((heap) => heap.peek()?.dueAtMs ?? Number.POSITIVE_INFINITY),
    );
  }

  /** @param isYoung whether it may just have been paid */
  add(quote: Quote, isYoung: boolean): void {
    quote.heap = isYoung ? 'young' : 'others';
    if (quote.batchLimit < NO_BATCH_LIMIT) {
      quote.heap = quote.batchLimit === 0 ? 'alone' : 'suspect';
    }
    this.#heaps[quote.heap].push(quote);
  }

  remove(quote: Quote): void {
    if (quote.heap !== null) {
      this.#heaps[quote.heap].remove(quote);
      quote.heap = null;
    }
  }

  /** Takes quotes that are due until then for a batch, those that batches cannot contain, or any, to read them alone. */
  take(kind: 'batch' | 'alone' | 'any', max: number, untilMs: number): Quote[] {
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

  #takeYoungFirst(max: number, untilMs: number, otherHeaps: readonly HeapName[]): Quote[] {
    const taken = this.#take('young', Math.ceil(max * (1 - SHARE_OF_OTHERS)), untilMs);
    for (const heap of [...otherHeaps, 'young'] as const) {
      taken.push(...this.#take(heap, max - taken.length, untilMs));
    }
    return taken;
  }

  #take(heapName: HeapName, max: number, untilMs: number): Quote[] {
    const heap = this.#heaps[heapName];
    const taken: Quote[] = [];
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
