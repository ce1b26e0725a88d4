import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type AddressPrefixes,
  computeShare,
  toAddressGroup,
  toAddressPrefixes,
} from '../../../src/net/address-prefixes.ts';

// test/acceptance/rate-limits.test.ts covers the address formats that proxies send.

const IPV4_PREFIXES = [
  { key: '192.0.2.1/32', factor: 1 },
  { key: '192.0.2/24', factor: 8 },
];
const IPV6_PREFIXES = [
  { key: '20010db800010002/64', factor: 1 },
  { key: '20010db8000100/56', factor: 2 },
  { key: '20010db80001/48', factor: 4 },
  { key: '20010db8/32', factor: 16 },
];
const UNKNOWN = [{ key: 'unknown', factor: 1 }];

describe('toAddressPrefixes', () => {
  it.each<[string | undefined, AddressPrefixes]>([
    ['192.0.2.1', IPV4_PREFIXES],
    ['::ffff:c000:201', IPV4_PREFIXES],
    ['[::ffff:192.0.2.1]:4711', IPV4_PREFIXES],
    ['2001:0DB8:0001:0002::1', IPV6_PREFIXES],
    ['2001:db8:1:2::1%eth0', IPV6_PREFIXES],
    ['2001:db8:1:2::192.0.2.1', IPV6_PREFIXES],
    ...[undefined, '', '_hidden', '192.0.2.1, 192.0.2.2', '192.0.2.1:', '192.0.2.1:123456'].map(
      (address): [string | undefined, AddressPrefixes] => [address, UNKNOWN],
    ),
    ...['[2001:db8::1', '2001:db8::1]:80', '[192.0.2.1:80]', '1::2::3', '192.0.2.256'].map(
      (address): [string | undefined, AddressPrefixes] => [address, UNKNOWN],
    ),
  ])('maps the client address %j to its prefixes', (address, prefixes) => {
    expect(toAddressPrefixes(address)).toEqual(prefixes);
  });

  it.each([
    [64, 0],
    [56, 1],
    [48, 2],
    [32, 3],
  ])('gives two IPv6 addresses the same prefix if their first %i bits are equal', (length, i) => {
    const bits = fc.bigInt({ min: 2n << 124n, max: (2n << 125n) - 1n });
    fc.assert(
      fc.property(bits, bits, fc.integer({ min: 0, max: 127 }), (one, rest, position) => {
        const mask = (1n << BigInt(position)) - 1n;
        // Has the first bits of `one`.
        const other = (one & ~mask) | (rest & mask);
        const isSame = one >> BigInt(128 - length) === other >> BigInt(128 - length);
        const [key, otherKey] = [one, other].map((each) => toAddressPrefixes(format(each))[i]?.key);
        expect(key === otherKey).toBe(isSame);
      }),
    );
  });
});

it('queues the clients of an IPv6 /48 or an IPv4 /24 together', () => {
  expect(toAddressGroup(IPV6_PREFIXES)).toBe('20010db80001/48');
  expect(toAddressGroup(IPV4_PREFIXES)).toBe('192.0.2/24');
  expect(toAddressGroup(UNKNOWN)).toBe('unknown');
});

describe('a total', () => {
  it.each([
    [0, 1],
    [500, 1],
    [650, 1 / 8],
    [1_000, 0],
  ])(
    'of which %i of 1,000 are used leaves prefixes a share of %d of their bounds',
    (used, share) => {
      expect(computeShare(used, 1_000)).toBeCloseTo(share, 5);
    },
  );

  it('that is not limited leaves prefixes their whole bounds', () => {
    expect(computeShare(5_000, 0)).toBe(1);
  });
});

function format(address: bigint): string {
  return address.toString(16).padStart(32, '0').match(/.{4}/g)?.join(':') ?? '';
}
