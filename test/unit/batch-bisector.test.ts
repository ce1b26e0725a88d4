import fc from 'fast-check';
import { expect, it } from 'vitest';
import { BatchBisector } from '../../src/watcher/batch-bisector.ts';

it('returns a half again if it was not sent', () => {
  const bisector = new BatchBisector();
  bisector.splitRejected(['a', 'b', 'c']);
  bisector.putBack(bisector.takeNextGroup() ?? []);
  expect([bisector.takeNextGroup(), bisector.takeNextGroup(), bisector.takeNextGroup()]).toEqual([
    ['c'],
    ['a', 'b'],
    null,
  ]);
});

it('finds every invalid id and clears all others with few requests for each', () => {
  const batch = Array.from({ length: 100 }, (_, index) => `id-${index}`);
  fc.assert(
    fc.property(fc.subarray(batch, { minLength: 1, maxLength: 5 }), (badIds) => {
      const bisector = new BatchBisector();
      const found: (string | null)[] = [bisector.splitRejected(batch)];
      const cleared: string[] = [];
      let requests = 1;
      for (let group = bisector.takeNextGroup(); group !== null; group = bisector.takeNextGroup()) {
        requests += 1;
        if (group.some((id) => badIds.includes(id))) {
          found.push(bisector.splitRejected(group));
        } else {
          cleared.push(...group);
        }
      }
      expect(found.filter((id) => id !== null).toSorted()).toEqual(badIds.toSorted());
      expect([...cleared, ...badIds].toSorted()).toEqual(batch.toSorted());
      // Seven halvings isolate one of a hundred.
      expect(requests).toBeLessThanOrEqual(1 + 14 * badIds.length);
    }),
  );
});
