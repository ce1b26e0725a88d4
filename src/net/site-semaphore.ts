import { KeyedCounter } from '../keyed-counter.ts';
import { getSite } from './site.ts';

interface SiteSemaphoreOptions {
  max: number;
  maxPerSite: number;
  /** Whether `maxPerSite` shrinks as the slots fill, so that a few sites cannot use them all. */
  shouldShrinkSiteShare?: boolean;
  exemptUrls: readonly string[];
  allowPrivateNetworks: boolean;
}

/** Limits what is open at a time, per site and in total. Exempt URLs have `maxPerSite` slots of their own. */
export class SiteSemaphore {
  count = 0;
  readonly #options: SiteSemaphoreOptions;
  readonly #usedBySite = new KeyedCounter();
  #usedNonExemptCount = 0;
  readonly #waiters = new Set<SlotKey & { grant: () => void }>();

  constructor(options: SiteSemaphoreOptions) {
    this.#options = options;
  }

  tryAcquire(url: string): boolean {
    return this.#tryAcquire(this.#toKey(url));
  }

  /** Acquires a slot in order of arrival. Resolves with false if no slot becomes free in time. */
  acquireWithin(url: string, maxWaitMs: number): Promise<boolean> {
    const key = this.#toKey(url);
    const { site, isExempt } = key;
    if (this.#tryAcquire(key)) {
      return Promise.resolve(true);
    }
    // Scanning this many takes a fraction of a millisecond.
    const isQueueFull = this.#waiters.size >= 4_096 && !isExempt;
    const ofSite = [...this.#waiters].filter((waiter) => waiter.site === site);
    // Several times the slots of a site, so that a burst of requests to an honest host is served.
    if (isQueueFull || ofSite.length >= 128) {
      return Promise.resolve(false);
    }
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const finish = (isGranted: boolean) => {
      clearTimeout(timer);
      this.#waiters.delete(waiter);
      resolve(isGranted);
    };
    const waiter = { ...key, grant: () => finish(true) };
    const timer = setTimeout(() => finish(false), maxWaitMs).unref();
    this.#waiters.add(waiter);
    return promise;
  }

  release(url: string): void {
    const { site, isExempt } = this.#toKey(url);
    this.#usedBySite.decrement(site);
    this.count -= 1;
    this.#usedNonExemptCount -= Number(!isExempt);
    for (const waiter of this.#waiters) {
      if (this.#tryAcquire(waiter)) {
        waiter.grant();
      }
    }
  }

  #tryAcquire({ site, isExempt }: SlotKey): boolean {
    const { max, maxPerSite, shouldShrinkSiteShare } = this.#options;
    const isFull = !isExempt && this.#usedNonExemptCount >= max;
    const freeFraction = isExempt ? 1 : 1 - this.#usedNonExemptCount / max;
    const siteShare = shouldShrinkSiteShare ? Math.ceil(maxPerSite * freeFraction) : maxPerSite;
    if (isFull || this.#usedBySite.get(site) >= siteShare) {
      return false;
    }
    this.#usedBySite.increment(site);
    this.count += 1;
    this.#usedNonExemptCount += Number(!isExempt);
    return true;
  }

  #toKey(url: string): SlotKey {
    return this.#options.exemptUrls.includes(url)
      ? { site: url, isExempt: true }
      : { site: getSite(url, this.#options), isExempt: false };
  }
}

interface SlotKey {
  /** The whole URL if it is exempt. */
  site: string;
  isExempt: boolean;
}
