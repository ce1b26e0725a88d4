import { expect, it } from 'vitest';
import { FixedWindowRateLimiter } from '../../src/fixed-window-rate-limiter.ts';
import { toAddressPrefixes } from '../../src/net/address-prefixes.ts';
import { TestClock } from '../helpers/test-clock.ts';

// test/acceptance/rate-limits.test.ts covers the rate limit itself.

const MINUTE_MS = 60_000;

it('evicts the least recently used key if there are too many keys', () => {
  const maxPerWindow = 1;
  const maxKeys = 2;
  const limiter = new FixedWindowRateLimiter(maxPerWindow, maxKeys, new TestClock().now);
  const retryAfterMs = ['a', 'b', 'a', 'c', 'a', 'b'].map((key) =>
    limiter.consume([{ key, factor: 1 }]),
  );
  // The key c evicts b, not a, because a was used more recently.
  expect(retryAfterMs).toEqual([null, null, MINUTE_MS, null, MINUTE_MS, null]);
});

it('limits each prefix of an address to its own bound', () => {
  const consume = createLimiter(10);
  const countAccepted = (addresses: readonly string[]) =>
    addresses
      .flatMap((address) => Array.from({ length: 15 }, () => consume(address)))
      .filter((retryAfterMs) => retryAfterMs === null).length;
  const listSubnets = (prefix: string, count: number) =>
    Array.from({ length: count }, (_, i) => `${prefix}${(i + 1).toString(16)}::`);
  expect(countAccepted(['2001:db8:1:100::1', '2001:db8:1:100::2'])).toBe(10);
  expect(countAccepted(['2001:db8:1:101::', '2001:db8:1:102::'])).toBe(10);
  expect(countAccepted(listSubnets('2001:db8:1:', 255))).toBe(20);
  expect(countAccepted(listSubnets('2001:db8:', 200))).toBe(120);
  expect(countAccepted(['2001:db9::'])).toBe(10);
  expect(countAccepted(Array.from({ length: 256 }, (_, i) => `192.0.2.${i}`))).toBe(80);
});

function createLimiter(maxPerWindow: number, maxKeys = 100_000) {
  const limiter = new FixedWindowRateLimiter(maxPerWindow, maxKeys, new TestClock().now);
  return (address: string) => limiter.consume(toAddressPrefixes(address));
}
