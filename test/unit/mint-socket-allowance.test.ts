import { describe, expect, it } from 'vitest';
import { SocketAllowance } from '../../src/mint/socket-allowance.ts';

const OWN = 'https://own.example/Bitcoin';

describe('the sockets to mints', () => {
  it('are few to one host, whatever the path and the port, and come back', () => {
    const allowance = new SocketAllowance({ max: 100, ownMints: [], allowPrivateNetworks: false });
    const urls = Array.from({ length: 20 }, (_, index) =>
      index % 2 === 0 ? `https://mint.example/${index}` : `https://mint.example:${8000 + index}`,
    );
    expect(urls.filter((url) => allowance.take(url))).toEqual(urls.slice(0, 8));
    expect(allowance.take('https://other.example')).toBe(true);
    allowance.giveBack(urls[0] ?? '');
    expect([
      allowance.take('https://mint.example/a'),
      allowance.take('https://mint.example/b'),
    ]).toEqual([true, false]);
  });

  it('are for certain to the mints that the operator has named', () => {
    const allowance = new SocketAllowance({
      max: 8,
      ownMints: [OWN],
      allowPrivateNetworks: false,
    });
    const aliases = Array.from({ length: 8 }, (_, index) => `https://own.example/${index}`);
    expect(aliases.every((url) => allowance.take(url))).toBe(true);
    expect([allowance.take('https://other.example'), allowance.take(OWN)]).toEqual([false, true]);
    allowance.giveBack(OWN);
    expect(allowance.take('https://other.example')).toBe(false);
  });

  it('are counted by port in development, where all mints are on one host', () => {
    const allowance = new SocketAllowance({ max: 100, ownMints: [], allowPrivateNetworks: true });
    const urls = Array.from({ length: 20 }, (_, index) => `http://127.0.0.1:${3000 + index}`);
    expect(urls.every((url) => allowance.take(url))).toBe(true);
  });
});
