import { expect, it } from 'vitest';
import { PublicOrigins } from '../../src/http/public-origins.ts';

// test/security/two-domains-hosts.test.ts covers spellings of hosts, and unknown hosts.

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
  const publicHost = new PublicOrigins([
    'https://pay.example',
    'https://two.example:8443',
    'http://two.example:8443',
    'https://[2001:db8::1]:8443',
  ]);
  publicHost.setListeningPort(3456);
  expect(publicHost.getOriginForRequest({ protocol, host: host as string })).toBe(origin);
});

it('uses localhost without a public origin once the server listens', () => {
  const publicHost = new PublicOrigins([]);
  expect(() => publicHost.canonicalOrigin).toThrow('not known before the server listens');
  publicHost.setListeningPort(3456);
  expect(publicHost.origins).toEqual(['http://localhost:3456']);
});
