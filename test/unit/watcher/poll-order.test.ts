import fc from 'fast-check';
import { expect, it } from 'vitest';
import { DueHeap, PollOrder } from '../../../src/watcher/poll-order.ts';
import { createWatchedQuote } from '../../../src/watcher/watched-quote.ts';

it('returns the element that is due first, whatever was added and removed before', () => {
  const operation = fc.record({ dueAtMs: fc.integer({ min: 0, max: 50 }), removes: fc.nat() });
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 200 }), (operations) => {
      const heap = new DueHeap();
      const expected: { dueAtMs: number; heapIndex: number }[] = [];
      for (const { dueAtMs, removes } of operations) {
        const removed = expected[removes % (2 * expected.length + 1)];
        if (removed === undefined) {
          const added = { dueAtMs, heapIndex: -1 };
          heap.push(added);
          expected.push(added);
        } else {
          heap.remove(removed);
          expect(removed.heapIndex).toBe(-1);
          expected.splice(expected.indexOf(removed), 1);
        }
        const earliestMs = Math.min(...expected.map((item) => item.dueAtMs));
        expect(heap.peek()?.dueAtMs ?? Number.POSITIVE_INFINITY).toBe(earliestMs);
      }
    }),
  );
});

it.each([1, 2, 3, 100])(
  'keeps a quarter for older and suspect quotes if urgent ones are always due, with %i quotes in a poll',
  (size) => {
    const order = new PollOrder();
    const add = (quoteId: string, isUrgent: boolean, changes = {}) => {
      const times = { createdAtMs: 0, expiresAtMs: 0, paidAtMs: null };
      const row = { id: 1, quoteId, state: 'UNPAID' as const, ...times };
      order.add(Object.assign(createWatchedQuote(row, 0, 0), changes), { isUrgent });
    };
    const urgentIds = Array.from({ length: 500 }, (_, index) => `urgent-${index}`);
    for (const quoteId of urgentIds) {
      add(quoteId, true);
    }
    for (const batchLimit of [1_000, 1, 0]) {
      add(`other with the limit ${batchLimit}`, false, { batchLimit });
    }
    // Old quotes that are due later, so that they come after those above.
    for (let index = 0; index < 200; index += 1) {
      add(`other-${index}`, false, { dueAtMs: 1 });
    }
    const taken: string[] = [];
    while (taken.length < 200) {
      const quotes = order.take('any', size, 1);
      taken.push(...quotes.map(({ quoteId }) => quoteId));
      for (const { quoteId } of quotes.filter(({ quoteId }) => quoteId.startsWith('urgent'))) {
        add(quoteId, true);
      }
    }
    const others = taken.filter((quoteId) => quoteId.startsWith('other'));
    expect(others.length).toBe(Math.floor(taken.length / 4));
    expect(others.slice(0, 3).toSorted()).toEqual([
      'other with the limit 0',
      'other with the limit 1',
      'other with the limit 1000',
    ]);
  },
);
