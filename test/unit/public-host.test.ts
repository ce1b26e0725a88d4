import { describe, expect, it } from 'vitest';
import { PublicHost } from '../../src/http/public-host.ts';

describe('the public origin of a request', () => {
  const publicHost = new PublicHost([
    'https://pay.example',
    'https://two.example:8443',
    'http://two.example:8443',
    'http://localhost:3000',
    'https://[2001:db8::1]:8443',
  ]);

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
  ] as const)('that came by %s to %j is %s', (protocol, host, origin) => {
    expect(publicHost.originFor({ protocol, host })).toBe(origin);
  });

  it('is told apart by scheme where another is canonical, and is the first of its host else', () => {
    const three = new PublicHost([
      'https://pay.example',
      'http://two.example',
      'https://two.example',
    ]);
    const host = 'two.example:443';
    expect(three.originFor({ protocol: 'https', host })).toBe('https://two.example');
    expect(three.originFor({ protocol: 'http', host })).toBe('http://two.example');
    expect(three.originFor({ protocol: 'wss' as 'https', host })).toBe('http://two.example');
  });

  it('is the first of them where a request names no host', () => {
    const request = { protocol: 'http', host: undefined as unknown as string } as const;
    expect(publicHost.originFor(request)).toBe('https://pay.example');
    expect(publicHost.canonical).toBe('https://pay.example');
  });
});

describe('a service without a public origin', () => {
  it('is at home, once it listens', () => {
    const publicHost = new PublicHost([]);
    expect(() => publicHost.canonical).toThrow('not known before the server listens');
    publicHost.listeningOn(3456);
    expect(publicHost.origins).toEqual(['http://localhost:3456']);
    expect(publicHost.originFor({ protocol: 'http', host: '127.0.0.1:3456' })).toBe(
      'http://localhost:3456',
    );
  });

  it('is not what one with an origin becomes', () => {
    const publicHost = new PublicHost(['https://pay.example']);
    publicHost.listeningOn(3456);
    expect(publicHost.origins).toEqual(['https://pay.example']);
  });
});
