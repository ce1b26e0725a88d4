import fc from 'fast-check';
import { expect, it } from 'vitest';
import { clientNetwork } from '../../src/domain/client-network.ts';

it.each([
  ['192.0.2.1', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['::ffff:c000:201', '192.0.2.1'],
  ['192.0.2.1:4711', '192.0.2.1'],
  ['[::ffff:192.0.2.1]:4711', '192.0.2.1'],
])('an IPv4 client is its address, written as %s', (address, network) => {
  expect(clientNetwork(address)).toBe(network);
});

it.each([
  '2001:db8:1:2::1',
  '2001:db8:1:2:ffff:ffff:ffff:ffff',
  '2001:0DB8:0001:0002::1',
  '2001:db8:1:2::1%eth0',
  '2001:db8:1:2::192.0.2.1',
  '[2001:db8:1:2::1]',
  '[2001:db8:1:2::1]:4711',
])('an IPv6 client is its /64, written as %s', (address) => {
  expect(clientNetwork(address)).toBe('2001:db8:1:2::/64');
});

it('neighbouring networks are distinct', () => {
  expect(clientNetwork('192.0.2.1')).not.toBe(clientNetwork('192.0.2.2'));
  expect(clientNetwork('2001:db8:1:2::1')).not.toBe(clientNetwork('2001:db8:1:3::1'));
});

it.each([
  undefined,
  '',
  'unknown',
  '_hidden',
  '192.0.2.1, 192.0.2.2',
  '192.0.2.1:',
  '192.0.2.1:123456',
  '[2001:db8::1',
  '2001:db8::1]:80',
  '[192.0.2.1:80]',
  'for=192.0.2.1',
  '1::2::3',
  '192.0.2.256',
])('%s is unknown', (address) => {
  expect(clientNetwork(address)).toBe('unknown');
});

it('the name of a network is short', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string({ maxLength: 2_000 }), fc.ipV6(), fc.ipV4()), (address) => {
      expect(clientNetwork(address).length).toBeLessThanOrEqual(24);
    }),
  );
});
