import { expect, it } from 'vitest';
import { FixedWindowCounter } from '../../src/domain/fixed-window-counter.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** How often a key may do something in a minute. */

it('rejects a key above the limit until its minute is over, and no other key', () => {
  const clock = new TestClock();
  const counter = new FixedWindowCounter(2, 10, clock.now);
  expect([counter.count('a'), counter.count('a')]).toEqual([null, null]);
  clock.advance(20_000);
  expect([counter.count('a'), counter.count('b')]).toEqual([40_000, null]);
  clock.advance(39_999);
  expect([counter.count('a'), counter.count('b')]).toEqual([1, null]);
  clock.advance(1);
  expect([counter.count('a'), counter.count('b')]).toEqual([null, 20_000]);
});

it('drops the least recently used key if there are too many', () => {
  const counter = new FixedWindowCounter(1, 2, new TestClock().now);
  const counts = ['a', 'b', 'a', 'c', 'a', 'b'].map((key) => counter.count(key));
  expect(counts).toEqual([null, null, 60_000, null, 60_000, null]);
});
