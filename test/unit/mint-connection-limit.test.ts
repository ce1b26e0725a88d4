import { describe, expect, it } from 'vitest';
import { ConnectionLimit } from '../../src/mint/connection-limit.ts';

const OWN = 'https://own.example/Bitcoin';

describe('the limit on connections to mints', () => {
  it('allows few to one host, whatever the path and the port', () => {
    const limit = new ConnectionLimit({ max: 100, ownMints: [], allowPrivateNetworks: false });
    const urls = Array.from({ length: 20 }, (_, index) =>
      index % 2 === 0 ? `https://mint.example/${index}` : `https://mint.example:${8000 + index}`,
    );
    expect(urls.filter((url) => limit.acquire(url))).toEqual(urls.slice(0, 8));
    expect(limit.acquire('https://other.example')).toBe(true);
    limit.release(urls[0] ?? '');
    expect([
      limit.acquire('https://mint.example/a'),
      limit.acquire('https://mint.example/b'),
    ]).toEqual([true, false]);
  });

  it('never applies to the mints of the operator', () => {
    const limit = new ConnectionLimit({ max: 8, ownMints: [OWN], allowPrivateNetworks: false });
    const aliases = Array.from({ length: 8 }, (_, index) => `https://own.example/${index}`);
    expect(aliases.every((url) => limit.acquire(url))).toBe(true);
    expect([limit.acquire('https://other.example'), limit.acquire(OWN)]).toEqual([false, true]);
    limit.release(OWN);
    expect(limit.acquire('https://other.example')).toBe(false);
  });

  it('counts by port in development, where all mints are on one host', () => {
    const limit = new ConnectionLimit({ max: 100, ownMints: [], allowPrivateNetworks: true });
    const urls = Array.from({ length: 20 }, (_, index) => `http://127.0.0.1:${3000 + index}`);
    expect(urls.every((url) => limit.acquire(url))).toBe(true);
  });
});
