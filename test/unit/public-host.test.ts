import { expect, it } from 'vitest';
import { PublicHost } from '../../src/http/public-host.ts';

// test/security/two-domains-hosts.test.ts covers spellings of hosts, and hosts of strangers.

it.each([
  ['https', 'two.example:8443', 'https://two.example:8443'],
  ['http', 'two.example:8443', 'http://two.example:8443'],
  ['http', 'pay.example:80', 'https://pay.example'],
  ['https', 'Two.example.:8443', 'https://two.example:8443'],
  ['https', '[2001:db8::1]:8443', 'https://[2001:db8::1]:8443'],
  ['https', 'https://two.example:8443', 'https://pay.example'],
  ['https', '.', 'https://pay.example'],
  ['http', undefined, 'https://pay.example'],
] as const)('a request over %s to %j came by %s', (protocol, host, origin) => {
  const publicHost = new PublicHost([
    'https://pay.example',
    'https://two.example:8443',
    'http://two.example:8443',
    'https://[2001:db8::1]:8443',
  ]);
  publicHost.listeningOn(3456);
  expect(publicHost.originFor({ protocol, host: host as string })).toBe(origin);
});

it('without a public origin, the origin is localhost once the server listens', () => {
  const publicHost = new PublicHost([]);
  expect(() => publicHost.canonical).toThrow('not known before the server listens');
  publicHost.listeningOn(3456);
  expect(publicHost.origins).toEqual(['http://localhost:3456']);
});
