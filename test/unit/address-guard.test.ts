import type { LookupAddress } from 'node:dns';
import { describe, expect, it } from 'vitest';
import { createGuardedLookup, type ResolveHostname } from '../../src/net/address-guard.ts';
import { isForbiddenHost, isPublicAddress } from '../../src/net/public-address.ts';

it.each([
  ['public IPv4 address', '93.184.216.34'],
  ['public IPv6 address', '2606:4700::1111'],
  ['public IPv4 address mapped into IPv6', '::ffff:93.184.216.34'],
  ['public IPv4 address behind NAT64', '64:ff9b::5db8:d822'],
  ['public IPv4 address in 6to4', '2002:5db8:d822::1'],
])('isPublicAddress accepts %s: %s', (_case, address) => {
  expect(isPublicAddress(address)).toBe(true);
});

it.each([
  ['loopback', '127.0.0.1'],
  ['unspecified', '0.0.0.0'],
  ['private, 10/8', '10.1.2.3'],
  ['private, 172.16/12', '172.31.255.255'],
  ['private, 192.168/16', '192.168.1.1'],
  ['carrier-grade NAT', '100.64.0.1'],
  ['link-local, cloud metadata', '169.254.169.254'],
  ['the Azure host', '168.63.129.16'],
  ['the last of carrier-grade NAT', '100.127.255.255'],
  ['multicast', '224.0.0.1'],
  ['broadcast', '255.255.255.255'],
  ['reserved', '240.0.0.1'],
  ['protocol assignments', '192.0.0.8'],
  ['documentation', '192.0.2.1'],
  ['a relay of 6to4', '192.88.99.1'],
  ['IPv6 loopback', '::1'],
  ['IPv6 unique local, AWS metadata', 'fd00:ec2::254'],
  ['IPv6 link-local', 'fe80::1'],
  ['IPv6 link-local with a zone', 'fe80::1%eth0'],
  ['public but with a zone', '2606:4700::1111%eth0'],
  ['IPv6 multicast', 'ff02::1'],
  ['IPv6 for documentation', '2001:db8::1'],
  ['outside of the global unicast block', '4000::1'],
  ['private, IPv4-compatible', '::10.0.0.1'],
  ['loopback mapped into IPv6', '::ffff:127.0.0.1'],
  ['private mapped into IPv6, in hex', '::ffff:a00:1'],
  ['private behind NAT64', '64:ff9b::a00:1'],
  ['in the local-use block of NAT64', '64:ff9b:1::5db8:d822'],
  ['private in 6to4', '2002:c0a8:101::1'],
  ['loopback translated into IPv6', '::ffff:0:127.0.0.1'],
  ['Teredo', '2001:0:5db8:d822::1'],
  ['IPv6 site-local', 'fec0::1'],
  ['the discard prefix', '100::1'],
  ['for IPv6 benchmarking', '2001:2::1'],
  ['ORCHIDv2', '2001:20::1'],
  ['for IPv6 documentation, the new block', '3fff::1'],
  ['segment routing', '5f00::1'],
  ['loopback in octal', '0177.0.0.1'],
  ['a network', '93.184.216.34/32'],
  ['a name', 'localhost'],
  ['empty', ''],
])('isPublicAddress rejects %s: %s', (_case, address) => {
  expect(isPublicAddress(address)).toBe(false);
});

it.each([
  ['127.0.0.1', true],
  ['::1', true],
  ['localhost', true],
  ['LOCALHOST.', true],
  ['mint.localhost', true],
  ['93.184.216.34', false],
  ['mint.example', false],
  ['notlocalhost', false],
])('isForbiddenHost(%s) returns %s', (host, expected) => {
  expect(isForbiddenHost(host)).toBe(expected);
});

// test/security/egress.test.ts covers names with private addresses, and DNS rebinding.
describe('createGuardedLookup', () => {
  it('returns the public addresses, or the first of them', async () => {
    const lookup = lookupOf(['10.0.0.1', '93.184.216.34', '2606:4700::1111']);
    expect(await lookup({ all: true })).toEqual([
      { address: '93.184.216.34', family: 4 },
      { address: '2606:4700::1111', family: 6 },
    ]);
    expect(await lookup({})).toBe('93.184.216.34');
  });

  it.each([[['127.0.0.1', '::1']], [[]]])('rejects a name with %j', async (found) => {
    await expect(lookupOf(found)({})).rejects.toMatchObject({ reason: 'forbidden address' });
  });

  it('returns at most eight addresses', async () => {
    const many = Array.from({ length: 1_000 }, (_, index) => `93.184.216.${index % 256}`);
    expect(await lookupOf(['10.0.0.1', ...many])({ all: true })).toHaveLength(8);
  });

  it("returns the resolver's error", async () => {
    const error = Object.assign(new Error('no such name'), { code: 'ENOTFOUND' });
    await expect(promised((_host, _options, done) => done(error, []))({})).rejects.toBe(error);
  });
});

function lookupOf(found: string[]) {
  const addresses = found.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  return promised((_hostname, _options, callback) => callback(null, addresses));
}

function promised(resolve: ResolveHostname) {
  return (options: { all?: boolean }) =>
    new Promise<string | LookupAddress[]>((fulfil, reject) => {
      createGuardedLookup(resolve)('mint.example', options, (error, address) =>
        error ? reject(error) : fulfil(address),
      );
    });
}
