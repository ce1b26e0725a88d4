import { expect, it } from 'vitest';
import { PublicOrigins } from '../../../src/http/public-origins.ts';

// test/security/two-domains-hosts.test.ts covers host name variants and unknown hosts.

it.each([
  ['https', 'two.example:8443', 'https://two.example:8443'],
  ['http', 'two.example:8443', 'http://two.example:8443'],
  ['http', 'pay.example:80', 'https://pay.example'],
  ['https', 'Two.example.:8443', 'https://two.example:8443'],
  ['https', '[2001:db8::1]:8443', 'https://[2001:db8::1]:8443'],
  ['https', 'https://two.example:8443', 'https://pay.example'],
  ['https', '.', 'https://pay.example'],
  ['http', undefined, 'https://pay.example'],
] as const)('PublicOrigins maps a request over %s to host %j to %s', (protocol, host, origin) => {
  const publicOrigins = new PublicOrigins([
    'https://pay.example',
    'https://two.example:8443',
    'http://two.example:8443',
    'https://[2001:db8::1]:8443',
  ]);
  publicOrigins.setListeningPort(3456);
  expect(publicOrigins.getOriginForRequest({ protocol, host: host as string })).toBe(origin);
});

it('PublicOrigins uses localhost and the listening port if no public origin is configured', () => {
  const publicOrigins = new PublicOrigins([]);
  expect(() => publicOrigins.canonicalOrigin).toThrow('not known before the server listens');
  publicOrigins.setListeningPort(3456);
  expect(publicOrigins.origins).toEqual(['http://localhost:3456']);
});
