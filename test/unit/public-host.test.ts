import { expect, it } from 'vitest';
import { PublicHost } from '../../src/http/public-host.ts';

it.each([
  ['https', 'pay.example', 'https://pay.example'],
  ['http', 'pay.example', 'https://pay.example'],
  ['https', 'PAY.Example', 'https://pay.example'],
  ['https', 'two.example:8443', 'https://two.example:8443'],
  ['http', 'two.example:8443', 'http://two.example:8443'],
  ['http', 'localhost:3000', 'http://localhost:3000'],
  ['https', 'pay.example:443', 'https://pay.example'],
  ['http', 'pay.example:80', 'https://pay.example'],
  ['https', 'pay.example.', 'https://pay.example'],
  ['https', 'Two.example.:8443', 'https://two.example:8443'],
  ['https', '[2001:db8::1]:8443', 'https://[2001:db8::1]:8443'],
  ['https', 'two.example', 'https://pay.example'],
  ['https', 'evil.example', 'https://pay.example'],
  ['https', 'pay.example.evil.example', 'https://pay.example'],
  ['https', 'two.example:8443, evil.example', 'https://pay.example'],
  ['https', 'https://two.example:8443', 'https://pay.example'],
  ['https', '.', 'https://pay.example'],
  ['https', '', 'https://pay.example'],
  ['http', undefined, 'https://pay.example'],
] as const)('a request over %s to %j came by %s', (protocol, host, origin) => {
  const publicHost = new PublicHost([
    'https://pay.example',
    'https://two.example:8443',
    'http://two.example:8443',
    'http://localhost:3000',
    'https://[2001:db8::1]:8443',
  ]);
  expect(publicHost.originFor({ protocol, host: host as string })).toBe(origin);
  expect(publicHost.canonical).toBe('https://pay.example');
});

it.each(['https', 'http'] as const)('two origins of one host are told apart by %s', (protocol) => {
  const publicHost = new PublicHost(['https://a.example', 'http://b.example', 'https://b.example']);
  const origin = publicHost.originFor({ protocol, host: 'b.example:443' });
  expect(origin).toBe(`${protocol}://b.example`);
});

it('without a public origin, the origin is localhost once the server listens', () => {
  const publicHost = new PublicHost([]);
  expect(() => publicHost.canonical).toThrow('not known before the server listens');
  publicHost.listeningOn(3456);
  expect(publicHost.origins).toEqual(['http://localhost:3456']);
  const request = { protocol: 'http', host: '127.0.0.1:3456' } as const;
  expect(publicHost.originFor(request)).toBe('http://localhost:3456');
});

it('a public origin does not change when the server listens', () => {
  const publicHost = new PublicHost(['https://pay.example']);
  publicHost.listeningOn(3456);
  expect(publicHost.origins).toEqual(['https://pay.example']);
});
