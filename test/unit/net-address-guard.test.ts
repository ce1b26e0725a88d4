import type { LookupAddress } from 'node:dns';
import { describe, expect, it } from 'vitest';
import { isForbiddenHost, isPublicAddress } from '../../src/domain/public-address.ts';
import { FORBIDDEN_ADDRESS, guardedLookup, type ResolveAll } from '../../src/net/address-guard.ts';

describe('an address that a stranger may send us to', () => {
  it.each([
    ['a public IPv4 address', '93.184.216.34'],
    ['a public IPv6 address', '2606:4700::1111'],
    ['a public IPv4 address mapped into IPv6', '::ffff:93.184.216.34'],
    ['a public IPv4 address behind NAT64', '64:ff9b::5db8:d822'],
    ['a public IPv4 address in 6to4', '2002:5db8:d822::1'],
  ])('is %s', (_what, address) => {
    expect(isPublicAddress(address)).toBe(true);
  });

  it.each([
    ['loopback', '127.0.0.1'],
    ['any of the loopback block', '127.8.9.10'],
    ['this host', '0.0.0.0'],
    ['private, 10/8', '10.1.2.3'],
    ['private, 172.16/12', '172.31.255.255'],
    ['private, 192.168/16', '192.168.1.1'],
    ['carrier-grade NAT', '100.64.0.1'],
    ['link-local, where clouds keep metadata', '169.254.169.254'],
    ['the Azure host', '168.63.129.16'],
    ['where clouds keep metadata for containers', '169.254.170.2'],
    ['where Alibaba keeps metadata', '100.100.100.200'],
    ['the Oracle cloud’s metadata', '192.0.0.192'],
    ['the rest of this host’s block', '0.1.2.3'],
    ['the first of private, 172.16/12', '172.16.0.0'],
    ['the last of carrier-grade NAT', '100.127.255.255'],
    ['multicast', '224.0.0.1'],
    ['the last of multicast', '239.255.255.255'],
    ['broadcast', '255.255.255.255'],
    ['reserved', '240.0.0.1'],
    ['of protocol assignments', '192.0.0.8'],
    ['for documentation', '192.0.2.1'],
    ['for documentation, the second block', '198.51.100.1'],
    ['for documentation, the third block', '203.0.113.1'],
    ['for benchmarking', '198.18.0.1'],
    ['the last for benchmarking', '198.19.255.255'],
    ['a relay of 6to4', '192.88.99.1'],
    ['of AS112', '192.175.48.1'],
    ['of AMT', '192.52.193.1'],
    ['IPv6 loopback', '::1'],
    ['IPv6 unspecified', '::'],
    ['IPv6 unique local, where clouds keep metadata', 'fd00:ec2::254'],
    ['IPv6 link-local', 'fe80::1'],
    ['IPv6 link-local with a zone', 'fe80::1%eth0'],
    ['public but with a zone', '2606:4700::1111%eth0'],
    ['IPv6 multicast', 'ff02::1'],
    ['IPv6 for documentation', '2001:db8::1'],
    ['outside of the global unicast block', '4000::1'],
    ['a private address in the old IPv4-compatible form', '::10.0.0.1'],
    ['loopback mapped into IPv6', '::ffff:127.0.0.1'],
    ['private mapped into IPv6, in hex', '::ffff:a00:1'],
    ['private behind NAT64', '64:ff9b::a00:1'],
    ['in the local-use block of NAT64', '64:ff9b:1::5db8:d822'],
    ['private in 6to4', '2002:c0a8:101::1'],
    ['loopback in 6to4', '2002:7f00:1::1'],
    ['the Azure host mapped into IPv6', '::ffff:168.63.129.16'],
    ['loopback translated into IPv6', '::ffff:0:127.0.0.1'],
    ['public, but translated into IPv6', '::ffff:0:93.184.216.34'],
    ['Teredo', '2001:0:5db8:d822::1'],
    ['IPv6 site-local', 'fec0::1'],
    ['IPv6 unique local, the other half', 'fc00::1'],
    ['for nobody: the discard prefix', '100::1'],
    ['next to the discard prefix', '100:0:0:1::1'],
    ['for IPv6 benchmarking', '2001:2::1'],
    ['ORCHID', '2001:10::1'],
    ['ORCHIDv2', '2001:20::1'],
    ['a drone’s', '2001:30::1'],
    ['of IPv6 protocol assignments', '2001:100::1'],
    ['for IPv6 documentation, the new block', '3fff::1'],
    ['the last of that block', '3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['of segment routing', '5f00::1'],
    ['IPv6 AS112', '2620:4f:8000::1'],
    ['loopback in short', '127.1'],
    ['loopback as one number', '2130706433'],
    ['loopback in hex', '0x7f000001'],
    ['loopback in octal', '0177.0.0.1'],
    ['of a network', '93.184.216.34/32'],
    ['a name', 'localhost'],
    ['empty', ''],
  ])('is not one that is %s', (_what, address) => {
    expect(isPublicAddress(address)).toBe(false);
  });
});

it('judges hosts that are addresses or the machine itself, and leaves names to the lookup', () => {
  expect(isForbiddenHost('127.0.0.1')).toBe(true);
  expect(isForbiddenHost('::1')).toBe(true);
  expect(isForbiddenHost('93.184.216.34')).toBe(false);
  expect(isForbiddenHost('localhost')).toBe(true);
  expect(isForbiddenHost('LOCALHOST.')).toBe(true);
  expect(isForbiddenHost('mint.localhost')).toBe(true);
  expect(isForbiddenHost('mint.example')).toBe(false);
  expect(isForbiddenHost('notlocalhost')).toBe(false);
});

describe('the guarded lookup', () => {
  it('leaves the public addresses of a name that has others too', async () => {
    const lookup = lookupOf(['10.0.0.1', '93.184.216.34', '::1', '2606:4700::1111']);
    expect(await lookup({ all: true })).toEqual([
      { address: '93.184.216.34', family: 4 },
      { address: '2606:4700::1111', family: 6 },
    ]);
    expect(await lookup({})).toBe('93.184.216.34');
  });

  it('refuses a name that has no public address', async () => {
    await expect(lookupOf(['127.0.0.1', '::1'])({ all: true })).rejects.toMatchObject({
      code: FORBIDDEN_ADDRESS,
    });
    await expect(lookupOf([])({})).rejects.toMatchObject({ code: FORBIDDEN_ADDRESS });
  });

  it('judges a name anew at each connection', async () => {
    const answers = [['93.184.216.34'], ['127.0.0.1']];
    const lookup = promised((_hostname, _options, callback) =>
      callback(null, addresses(answers.shift() ?? [])),
    );
    expect(await lookup({})).toBe('93.184.216.34');
    await expect(lookup({})).rejects.toMatchObject({ code: FORBIDDEN_ADDRESS });
  });

  it('takes a few addresses of very many', async () => {
    const many = Array.from({ length: 1_000 }, (_, index) => `93.184.216.${index % 256}`);
    expect(await lookupOf(['10.0.0.1', ...many])({ all: true })).toHaveLength(8);
  });

  it('passes on that a name does not exist', async () => {
    const error = Object.assign(new Error('no such name'), { code: 'ENOTFOUND' });
    const lookup = promised((_hostname, _options, callback) => callback(error, []));
    await expect(lookup({})).rejects.toBe(error);
  });
});

function lookupOf(answer: string[]) {
  return promised((_hostname, _options, callback) => callback(null, addresses(answer)));
}

function addresses(texts: string[]): LookupAddress[] {
  return texts.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
}

function promised(resolve: ResolveAll) {
  return (options: { all?: boolean }) =>
    new Promise<string | LookupAddress[]>((fulfil, reject) => {
      guardedLookup(resolve)('mint.example', options, (error, address) =>
        error ? reject(error) : fulfil(address),
      );
    });
}
