import { expect, it } from 'vitest';
import { dropOldest } from '../../src/domain/drop-oldest.ts';

/** What makes way where a map holds more than it may. */

it('nothing makes way while there is room', () => {
  const map = full(1_000);
  dropOldest(map, 1_000);
  expect(map.size).toBe(1_000);
});

it('the oldest make way, a hundredth at a time, so that it need not be done at each new one', () => {
  const map = full(1_001);
  dropOldest(map, 1_000);
  expect([...map.keys()]).toEqual(range(10, 1_001));
});

it('the oldest one makes way where there is room for a few', () => {
  const map = full(4);
  dropOldest(map, 3);
  expect([...map.keys()]).toEqual([1, 2, 3]);
});

function full(size: number): Map<number, string> {
  return new Map(range(0, size).map((key) => [key, 'kept']));
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, index) => from + index);
}
