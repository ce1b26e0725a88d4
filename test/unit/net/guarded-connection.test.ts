import type { LookupAddress } from 'node:dns';
import { describe, expect, it } from 'vitest';
import { createLookupOption } from '../../../src/net/guarded-connection.ts';
import { isPublicAddress } from '../../../src/net/public-address.ts';

describe('isPublicAddress', () => {
  it.each([
    ['a public IPv4 address', '93.184.216.34'],
    ['a public IPv6 address', '2606:4700::1111'],
    ['a public IPv4 address mapped into IPv6', '::ffff:93.184.216.34'],
    ['a public IPv4 address behind NAT64', '64:ff9b::5db8:d822'],
    ['a public IPv4 address in 6to4', '2002:5db8:d822::1'],
  ])('accepts %s: %s', (_case, address) => {
    expect(isPublicAddress(address)).toBe(true);
  });

  it.each([
    ['a loopback address', '127.0.0.1'],
    ['the unspecified address', '0.0.0.0'],
    ['a private address in 10/8', '10.1.2.3'],
    ['a private address in 172.16/12', '172.31.255.255'],
    ['a private address in 192.168/16', '192.168.1.1'],
    ['an address of carrier-grade NAT', '100.64.0.1'],
    ['the link-local address of cloud metadata', '169.254.169.254'],
    ["the address of an Azure virtual machine's host", '168.63.129.16'],
    ['a multicast address', '224.0.0.1'],
    ['the broadcast address', '255.255.255.255'],
    ['an address for protocol assignments', '192.0.0.8'],
    ['an address for documentation', '192.0.2.1'],
    ['a 6to4 relay address', '192.88.99.1'],
    ['the IPv6 loopback address', '::1'],
    ['the IPv6 address of AWS metadata', 'fd00:ec2::254'],
    ['an IPv6 link-local address', 'fe80::1'],
    ['a public IPv6 address with a zone', '2606:4700::1111%eth0'],
    ['an IPv6 multicast address', 'ff02::1'],
    ['an IPv6 address for documentation', '2001:db8::1'],
    ['an IPv6 address outside the global unicast block', '4000::1'],
    ['a private IPv4 address in the IPv4-compatible block', '::10.0.0.1'],
    ['a loopback address mapped into IPv6', '::ffff:127.0.0.1'],
    ['a private IPv4 address mapped into IPv6, in hex', '::ffff:a00:1'],
    ['a private IPv4 address behind NAT64', '64:ff9b::a00:1'],
    ['an address in the local-use block of NAT64', '64:ff9b:1::5db8:d822'],
    ['a private IPv4 address in 6to4', '2002:c0a8:101::1'],
    ['a loopback address in the IPv4-translated block', '::ffff:0:127.0.0.1'],
    ['an IPv6 site-local address', 'fec0::1'],
    ['an address in the IPv6 discard block', '100::1'],
    ['an IPv6 address for benchmarking', '2001:2::1'],
    ['an ORCHIDv2 address', '2001:20::1'],
    ['an IPv6 address in the newer documentation block', '3fff::1'],
    ['an address for segment routing', '5f00::1'],
    ['a loopback address in octal', '0177.0.0.1'],
    ['an address with a prefix length', '93.184.216.34/32'],
    ['a host name', 'localhost'],
    ['an empty text', ''],
  ])('rejects %s: %s', (_case, address) => {
    expect(isPublicAddress(address)).toBe(false);
  });
});

// test/security/egress.test.ts covers names of this machine, names that resolve to private addresses, and DNS rebinding.
describe('createLookupOption', () => {
  it('returns all public addresses with the option `all`, otherwise the first one', async () => {
    const lookup = guardedLookup(['10.0.0.1', '93.184.216.34', '2606:4700::1111']);
    expect(await lookup({ all: true })).toEqual([
      { address: '93.184.216.34', family: 4 },
      { address: '2606:4700::1111', family: 6 },
    ]);
    expect(await lookup({})).toBe('93.184.216.34');
  });

  it('returns at most eight addresses', async () => {
    const publicAddresses = Array.from({ length: 256 }, (_, index) => `93.184.216.${index}`);
    const lookup = guardedLookup(['10.0.0.1', ...publicAddresses]);
    expect(await lookup({ all: true })).toHaveLength(8);
  });
});

function guardedLookup(resolvedAddresses: string[]) {
  const addresses = resolvedAddresses.map((address) => ({
    address,
    family: address.includes(':') ? 6 : 4,
  }));
  const policy = { allowPrivateNetworks: false, resolve: async () => addresses };
  return (options: { all?: boolean }) =>
    new Promise<string | LookupAddress[]>((fulfil, reject) => {
      createLookupOption(policy).lookup?.('mint.example', options, (error, address) =>
        error ? reject(error) : fulfil(address),
      );
    });
}
