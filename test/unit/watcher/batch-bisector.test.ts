import fc from 'fast-check';
import { expect, it } from 'vitest';
import { BatchBisector } from '../../../src/watcher/batch-bisector.ts';

it('returns a group again after the group was put back', () => {
  const bisector = new BatchBisector();
  bisector.splitRejected(['a', 'b', 'c']);
  const firstHalf = bisector.takeNextGroup();
  bisector.putBack(firstHalf);
  expect([bisector.takeNextGroup(), bisector.takeNextGroup(), bisector.takeNextGroup()]).toEqual([
    ['c'],
    ['a', 'b'],
    [],
  ]);
});

it('finds every invalid id with at most 14 requests per invalid id', () => {
  const batch = Array.from({ length: 100 }, (_, index) => `id-${index}`);
  fc.assert(
    fc.property(fc.subarray(batch, { minLength: 1, maxLength: 5 }), (invalidIds) => {
      const bisector = new BatchBisector();
      const rejectedIds: (string | null)[] = [bisector.splitRejected(batch)];
      const acceptedIds: string[] = [];
      let requestCount = 1;
      for (
        let group = bisector.takeNextGroup();
        group.length > 0;
        group = bisector.takeNextGroup()
      ) {
        requestCount += 1;
        if (group.some((id) => invalidIds.includes(id))) {
          rejectedIds.push(bisector.splitRejected(group));
        } else {
          acceptedIds.push(...group);
        }
      }
      expect(rejectedIds.filter((id) => id !== null).toSorted()).toEqual(invalidIds.toSorted());
      expect([...acceptedIds, ...invalidIds].toSorted()).toEqual(batch.toSorted());
      // Seven halvings isolate one of 100 ids. Each halving causes two requests.
      expect(requestCount).toBeLessThanOrEqual(1 + 2 * 7 * invalidIds.length);
    }),
  );
});
