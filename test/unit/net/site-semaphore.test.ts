import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { SiteSemaphore } from '../../../src/net/site-semaphore.ts';

const EXEMPT_URL = 'https://exempt.example/Bitcoin';
const MAX_PER_SITE = 8;

it('with a shrinking share per site leaves slots for another host when an attacker uses many sites', () => {
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

it('grants an exempt URL a slot even if other URLs of its site use all slots', () => {
  const semaphore = createSemaphore({ max: 8, exemptUrls: [EXEMPT_URL] });
  const otherUrlsOfSite = Array.from(
    { length: 8 },
    (_, index) => `https://exempt.example/${index}`,
  );
  expect(otherUrlsOfSite.every((url) => semaphore.tryAcquire(url))).toBe(true);
  expect([semaphore.tryAcquire('https://other.example'), semaphore.tryAcquire(EXEMPT_URL)]).toEqual(
    [false, true],
  );
  semaphore.release(EXEMPT_URL);
  expect(semaphore.tryAcquire('https://other.example')).toBe(false);
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
    ...options,
  });
}
