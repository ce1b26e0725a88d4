import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { HostSemaphore } from '../../src/net/host-semaphore.ts';

const OWN = 'https://own.example/Bitcoin';

describe('HostSemaphore', () => {
  it('limits the slots of a host, whatever the path and port', () => {
    const slots = slotsOf({ max: 100 });
    const urls = Array.from({ length: 20 }, (_, index) =>
      index % 2 === 0 ? `https://mint.example/${index}` : `https://mint.example:${8000 + index}`,
    );
    expect(urls.filter((url) => slots.tryAcquire(url))).toEqual(urls.slice(0, 8));
    expect(slots.tryAcquire('https://other.example')).toBe(true);
    slots.release(urls[0] ?? '');
    expect([
      slots.tryAcquire('https://mint.example/a'),
      slots.tryAcquire('https://mint.example/b'),
    ]).toEqual([true, false]);
  });

  it('counts slots by port in development, where all hosts are on one machine', () => {
    const slots = slotsOf({ max: 100, allowPrivateNetworks: true });
    const urls = Array.from({ length: 20 }, (_, index) => `http://127.0.0.1:${3000 + index}`);
    expect(urls.every((url) => slots.tryAcquire(url))).toBe(true);
  });
});

describe('HostSemaphore fairness', () => {
  it('leaves slots for others when one client fills those of many hosts', () => {
    const slots = slotsOf({
      max: 1_024,
      maxPerHost: 32,
      shouldShrinkHostShare: true,
      exemptUrls: [OWN],
    });
    const usedBy = (url: string) =>
      Array.from({ length: 40 }, () => slots.tryAcquire(url)).filter(Boolean).length;
    expect(usedBy('https://first.example')).toBe(32);
    for (let host = 1; host < 100; host += 1) {
      usedBy(`https://${host}.attacker.example`);
    }
    expect(usedBy('https://mint.example')).toBeGreaterThan(0);
    expect(usedBy(OWN)).toBe(32);
    for (let host = 100; host < 1_100; host += 1) {
      usedBy(`https://${host}.attacker.example`);
    }
    expect(slots.count).toBe(1_024 + 32);
  });
});

describe('HostSemaphore with a trusted URL', () => {
  it('has reserved slots when all others are used, including those of its host', () => {
    const slots = slotsOf({ max: 8, exemptUrls: [OWN] });
    const aliases = Array.from({ length: 8 }, (_, index) => `https://own.example/${index}`);
    expect(aliases.every((url) => slots.tryAcquire(url))).toBe(true);
    expect([slots.tryAcquire('https://other.example'), slots.tryAcquire(OWN)]).toEqual([
      false,
      true,
    ]);
    slots.release(OWN);
    expect(slots.tryAcquire('https://other.example')).toBe(false);
  });

  it('has as many slots as a host', () => {
    const slots = slotsOf({ max: 100, exemptUrls: [OWN] });
    expect(Array.from({ length: 10 }, () => slots.tryAcquire(OWN)).filter(Boolean)).toHaveLength(8);
    expect(slots.count).toBe(8);
  });
});

describe('HostSemaphore queue', () => {
  it('grants slots in order of arrival without delaying hosts with free slots', async () => {
    const slots = slotsOf({ max: 9 });
    const served: string[] = [];
    fill(slots, 'https://mint.example', 8);
    fill(slots, 'https://other.example', 1);
    for (const url of ['https://mint.example/a', 'https://mint.example/b', 'https://new.example']) {
      void slots.acquireWithin(url, 1_000).then((isGranted) => isGranted && served.push(url));
    }
    slots.release('https://other.example');
    await Promise.resolve();
    expect(served).toEqual(['https://new.example']);
    slots.release('https://mint.example');
    await Promise.resolve();
    expect(served).toEqual(['https://new.example', 'https://mint.example/a']);
    expect(slots.count).toBe(9);
  });

  it('grants no slot after the timeout', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const slots = slotsOf({ max: 8 });
    fill(slots, 'https://mint.example', 8);
    const waiting = slots.acquireWithin('https://mint.example', 1_000);
    vi.advanceTimersByTime(1_000);
    expect(await waiting).toBe(false);
    slots.release('https://mint.example');
    expect(slots.count).toBe(7);
  });

  it('holds at most 128 callers for a host', async () => {
    const slots = slotsOf({ max: 100 });
    fill(slots, 'https://mint.example', 8);
    const all = Array.from({ length: 129 }, () => slots.acquireWithin('https://mint.example', 50));
    expect(await Promise.race([all[128], all[0]])).toBe(false);
    for (let count = 0; count < 128; count += 1) {
      slots.release('https://mint.example');
    }
    expect(await Promise.all(all)).toEqual([...Array(128).fill(true), false]);
  });
});

function fill(slots: HostSemaphore, url: string, count: number): void {
  expect(Array.from({ length: count }, () => slots.tryAcquire(url)).every(Boolean)).toBe(true);
}

function slotsOf(
  options: Partial<ConstructorParameters<typeof HostSemaphore>[0]> & { max: number },
): HostSemaphore {
  return new HostSemaphore({
    maxPerHost: 8,
    exemptUrls: [],
    allowPrivateNetworks: false,
    ...options,
  });
}
