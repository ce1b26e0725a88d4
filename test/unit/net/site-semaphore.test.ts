import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { SiteSemaphore } from '../../../src/net/site-semaphore.ts';

const EXEMPT_URL = 'https://exempt.example/Bitcoin';
const MAX_PER_SITE = 8;
const MAX_WAITERS_PER_SITE = 128;

describe('SiteSemaphore', () => {
  it('limits the slots of a site, for all its paths and ports together', () => {
    const semaphore = createSemaphore({ max: 100 });
    const urls = Array.from({ length: 20 }, (_, index) =>
      index % 2 === 0 ? `https://mint.example/${index}` : `https://mint.example:${8000 + index}`,
    );
    expect(urls.filter((url) => semaphore.tryAcquire(url))).toEqual(urls.slice(0, MAX_PER_SITE));
    expect(semaphore.tryAcquire('https://other.example')).toBe(true);
    semaphore.release(urls[0] ?? '');
    expect([
      semaphore.tryAcquire('https://mint.example/a'),
      semaphore.tryAcquire('https://mint.example/b'),
    ]).toEqual([true, false]);
  });

  it('counts each port as a site if private networks are allowed', () => {
    const semaphore = createSemaphore({ max: 100, allowPrivateNetworks: true });
    const urls = Array.from({ length: 20 }, (_, index) => `http://127.0.0.1:${3000 + index}`);
    expect(urls.every((url) => semaphore.tryAcquire(url))).toBe(true);
  });
});

describe('SiteSemaphore with a shrinking share per site', () => {
  it('leaves slots for another host when an attacker uses many sites', () => {
    const semaphore = createSemaphore({
      max: 1_024,
      maxPerSite: 32,
      shouldShrinkSiteShare: true,
      exemptUrls: [EXEMPT_URL],
    });
    const countAcquired = (url: string) =>
      Array.from({ length: 40 }, () => semaphore.tryAcquire(url)).filter(Boolean).length;
    expect(countAcquired('https://first.example')).toBe(32);
    for (let site = 1; site < 100; site += 1) {
      countAcquired(`https://attacker-${site}.example`);
    }
    expect(countAcquired('https://mint.example')).toBeGreaterThan(0);
    expect(countAcquired(EXEMPT_URL)).toBe(32);
    for (let site = 100; site < 1_100; site += 1) {
      countAcquired(`https://attacker-${site}.example`);
    }
    expect(semaphore.count).toBe(1_024 + 32);
  });
});

describe('SiteSemaphore with an exempt URL', () => {
  it('grants the exempt URL a slot even if other URLs of its site use all slots', () => {
    const semaphore = createSemaphore({ max: 8, exemptUrls: [EXEMPT_URL] });
    const otherUrlsOfSite = Array.from(
      { length: 8 },
      (_, index) => `https://exempt.example/${index}`,
    );
    expect(otherUrlsOfSite.every((url) => semaphore.tryAcquire(url))).toBe(true);
    expect([
      semaphore.tryAcquire('https://other.example'),
      semaphore.tryAcquire(EXEMPT_URL),
    ]).toEqual([false, true]);
    semaphore.release(EXEMPT_URL);
    expect(semaphore.tryAcquire('https://other.example')).toBe(false);
  });

  it('grants the exempt URL as many slots as a site', () => {
    const semaphore = createSemaphore({ max: 100, exemptUrls: [EXEMPT_URL] });
    const grants = Array.from({ length: 10 }, () => semaphore.tryAcquire(EXEMPT_URL));
    expect(grants.filter(Boolean)).toHaveLength(MAX_PER_SITE);
    expect(semaphore.count).toBe(MAX_PER_SITE);
  });
});

describe('SiteSemaphore queue', () => {
  it('grants slots in the order of the calls, but skips sites whose slots are all used', async () => {
    const semaphore = createSemaphore({ max: MAX_PER_SITE + 1 });
    const grantedUrls: string[] = [];
    acquireSlots(semaphore, 'https://mint.example', MAX_PER_SITE);
    acquireSlots(semaphore, 'https://other.example', 1);
    for (const url of ['https://mint.example/a', 'https://mint.example/b', 'https://new.example']) {
      void semaphore
        .acquireWithin(url, 1_000)
        .then((isGranted) => isGranted && grantedUrls.push(url));
    }
    semaphore.release('https://other.example');
    await Promise.resolve();
    expect(grantedUrls).toEqual(['https://new.example']);
    semaphore.release('https://mint.example');
    await Promise.resolve();
    expect(grantedUrls).toEqual(['https://new.example', 'https://mint.example/a']);
    expect(semaphore.count).toBe(MAX_PER_SITE + 1);
  });

  it('returns false and grants no slot after the timeout', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const semaphore = createSemaphore({ max: 8 });
    acquireSlots(semaphore, 'https://mint.example', MAX_PER_SITE);
    const isGranted = semaphore.acquireWithin('https://mint.example', 1_000);
    vi.advanceTimersByTime(1_000);
    expect(await isGranted).toBe(false);
    semaphore.release('https://mint.example');
    expect(semaphore.count).toBe(MAX_PER_SITE - 1);
  });

  it('queues at most 128 callers for a site', async () => {
    const semaphore = createSemaphore({ max: 100 });
    acquireSlots(semaphore, 'https://mint.example', MAX_PER_SITE);
    const acquire = () => semaphore.acquireWithin('https://mint.example', 50);
    const queued = Array.from({ length: MAX_WAITERS_PER_SITE }, acquire);
    const rejected = acquire();
    expect(await Promise.race([rejected, queued[0]])).toBe(false);
    for (let i = 0; i < MAX_WAITERS_PER_SITE; i += 1) {
      semaphore.release('https://mint.example');
    }
    expect(await Promise.all(queued)).toEqual(Array(MAX_WAITERS_PER_SITE).fill(true));
    expect(await rejected).toBe(false);
  });
});

function acquireSlots(semaphore: SiteSemaphore, url: string, count: number): void {
  expect(Array.from({ length: count }, () => semaphore.tryAcquire(url)).every(Boolean)).toBe(true);
}

function createSemaphore(
  options: Partial<ConstructorParameters<typeof SiteSemaphore>[0]> & { max: number },
): SiteSemaphore {
  return new SiteSemaphore({
    maxPerSite: MAX_PER_SITE,
    exemptUrls: [],
    allowPrivateNetworks: false,
    ...options,
  });
}
