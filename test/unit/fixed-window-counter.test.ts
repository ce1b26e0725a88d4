import { expect, it } from 'vitest';
import { FixedWindowCounter } from '../../src/keyed-counters.ts';
import { TestClock } from '../helpers/test-clock.ts';

// test/acceptance/rate-limits.test.ts covers the window.

it('evicts the least recently used key beyond the limit', () => {
  const counter = new FixedWindowCounter(1, 2, new TestClock().now);
  const counts = ['a', 'b', 'a', 'c', 'a', 'b'].map((key) => counter.consume(key));
  expect(counts).toEqual([null, null, 60_000, null, 60_000, null]);
});
