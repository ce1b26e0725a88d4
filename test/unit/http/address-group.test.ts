import fc from 'fast-check';
import { expect, it } from 'vitest';
import { toAddressGroup } from '../../../src/http/client-rate-limiter.ts';

// test/acceptance/rate-limits.test.ts covers the address formats that proxies send.

it.each([
  ['::ffff:c000:201', '192.0.2.1'],
  ['[::ffff:192.0.2.1]:4711', '192.0.2.1'],
  ['2001:0DB8:0001:0002::1', '2001:db8:1:2::/64'],
  ['2001:db8:1:2::1%eth0', '2001:db8:1:2::/64'],
  ['2001:db8:1:2::192.0.2.1', '2001:db8:1:2::/64'],
  ...[undefined, '', '_hidden', '192.0.2.1, 192.0.2.2', '192.0.2.1:', '192.0.2.1:123456'].map(
    (address) => [address, 'unknown'],
  ),
  ...['[2001:db8::1', '2001:db8::1]:80', '[192.0.2.1:80]', '1::2::3', '192.0.2.256'].map(
    (address) => [address, 'unknown'],
  ),
])('maps the client address %j to the address group %j', (address, addressGroup) => {
  expect(toAddressGroup(address)).toBe(addressGroup);
});

it('returns an address group no longer than an IPv6 prefix', () => {
  const maxLength = 'ffff:ffff:ffff:ffff::/64'.length;
  fc.assert(
    fc.property(fc.oneof(fc.string({ maxLength: 2_000 }), fc.ipV6(), fc.ipV4()), (address) => {
      expect(toAddressGroup(address).length).toBeLessThanOrEqual(maxLength);
    }),
  );
});
