import fc from 'fast-check';
import { expect, it } from 'vitest';
import { DueHeap } from '../../../src/watcher/poll-order.ts';

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
