import { describe, expect, it } from 'vitest';
import { HostSlots } from '../../src/net/host-slots.ts';

const OWN = 'https://own.example/Bitcoin';

describe('the slots of a host', () => {
  it('are few, whatever the path and the port', () => {
    const slots = slotsOf({ max: 100 });
    const urls = Array.from({ length: 20 }, (_, index) =>
      index % 2 === 0 ? `https://mint.example/${index}` : `https://mint.example:${8000 + index}`,
    );
    expect(urls.filter((url) => slots.acquire(url))).toEqual(urls.slice(0, 8));
    expect(slots.acquire('https://other.example')).toBe(true);
    slots.release(urls[0] ?? '');
    expect([
      slots.acquire('https://mint.example/a'),
      slots.acquire('https://mint.example/b'),
    ]).toEqual([true, false]);
  });

  it('are those of a port in development, where all hosts are on one machine', () => {
    const slots = slotsOf({ max: 100, allowPrivateNetworks: true });
    const urls = Array.from({ length: 20 }, (_, index) => `http://127.0.0.1:${3000 + index}`);
    expect(urls.every((url) => slots.acquire(url))).toBe(true);
  });
});

describe('a trusted URL', () => {
  it('has slots of its own when all others are used, also those of its host', () => {
    const slots = slotsOf({ max: 8, trusted: [OWN] });
    const aliases = Array.from({ length: 8 }, (_, index) => `https://own.example/${index}`);
    expect(aliases.every((url) => slots.acquire(url))).toBe(true);
    expect([slots.acquire('https://other.example'), slots.acquire(OWN)]).toEqual([false, true]);
    slots.release(OWN);
    expect(slots.acquire('https://other.example')).toBe(false);
  });

  it('has as many slots as a host', () => {
    const slots = slotsOf({ max: 100, trusted: [OWN] });
    expect(Array.from({ length: 10 }, () => slots.acquire(OWN)).filter(Boolean)).toHaveLength(8);
    expect(slots.count).toBe(8);
  });
});

function slotsOf(options: { max: number; trusted?: string[]; allowPrivateNetworks?: boolean }) {
  return new HostSlots({ maxPerHost: 8, trusted: [], allowPrivateNetworks: false, ...options });
}
