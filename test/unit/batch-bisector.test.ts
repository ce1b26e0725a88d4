import fc from 'fast-check';
import { expect, it } from 'vitest';
import { BatchBisector } from '../../src/watcher/batch-bisector.ts';

it('names the id of a batch of one', () => {
  expect(new BatchBisector().rejected(['bad'])).toBe('bad');
});

it('has no suspects before a batch is rejected', () => {
  const bisector = new BatchBisector();
  expect(bisector.hasSuspects).toBe(false);
  expect(bisector.next()).toBeNull();
});

it('suspects every id of a rejected batch until its half is taken', () => {
  const bisector = new BatchBisector();
  expect(bisector.rejected(['a', 'b', 'c'])).toBeNull();
  expect(['a', 'b', 'c', 'd'].filter((id) => bisector.isSuspect(id))).toEqual(['a', 'b', 'c']);
  expect(bisector.next()).toEqual(['a', 'b']);
  expect(['a', 'b', 'c'].filter((id) => bisector.isSuspect(id))).toEqual(['c']);
});

it('gives a half again that was not sent', () => {
  const bisector = new BatchBisector();
  bisector.rejected(['a', 'b', 'c']);
  bisector.putBack(bisector.next() ?? []);
  expect([bisector.next(), bisector.next(), bisector.next()]).toEqual([['c'], ['a', 'b'], null]);
});

it('drops all suspects when it is cleared', () => {
  const bisector = new BatchBisector();
  bisector.rejected(['a', 'b', 'c']);
  bisector.clear();
  expect(bisector.hasSuspects).toBe(false);
  expect(bisector.isSuspect('a')).toBe(false);
});

it('finds every bad id, clears all others, and needs few requests for each', () => {
  const batch = Array.from({ length: 100 }, (_, index) => `id-${index}`);
  fc.assert(
    fc.property(fc.subarray(batch, { minLength: 1, maxLength: 5 }), (badIds) => {
      const bisector = new BatchBisector();
      const found: (string | null)[] = [bisector.rejected(batch)];
      const cleared: string[] = [];
      let requests = 1;
      for (let group = bisector.next(); group !== null; group = bisector.next()) {
        requests += 1;
        if (group.some((id) => badIds.includes(id))) {
          found.push(bisector.rejected(group));
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
