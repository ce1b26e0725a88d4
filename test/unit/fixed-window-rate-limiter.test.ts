import { expect, it } from 'vitest';
import { FixedWindowRateLimiter } from '../../src/fixed-window-rate-limiter.ts';
import { TestClock } from '../helpers/test-clock.ts';

// test/acceptance/rate-limits.test.ts covers the rate limit itself.

it('evicts the least recently used key if there are too many keys', () => {
  const maxPerWindow = 1;
  const maxKeys = 2;
  const limiter = new FixedWindowRateLimiter(maxPerWindow, maxKeys, new TestClock().now);
  const retryAfterMs = ['a', 'b', 'a', 'c', 'a', 'b'].map((key) => limiter.consume(key));
  // The key c evicts b, not a, because a was used more recently.
  expect(retryAfterMs).toEqual([null, null, 60_000, null, 60_000, null]);
});
