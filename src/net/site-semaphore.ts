import { KeyedCounter } from '../keyed-counter.ts';
import { getSite } from './site.ts';

interface SiteSemaphoreOptions {
  max: number;
  maxPerSite: number;
  /** Whether `maxPerSite` shrinks as the slots are used up, so that a few sites cannot use them all. */
  shouldShrinkSiteShare?: boolean;
  /** Each has `maxPerSite` slots of its own, which do not count towards `max`. */
  exemptUrls: readonly string[];
}

/** Limits how many slots (requests or connections) are used at a time, per site and in total. */
export class SiteSemaphore {
  count = 0;
  readonly #options: SiteSemaphoreOptions;
  readonly #usedBySite = new KeyedCounter();
  #nonExemptCount = 0;
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
    if (this.#tryAcquire(key)) {
      return Promise.resolve(true);
    }
    const siteWaiters = [...this.#waiters].filter(({ site }) => site === key.site);
    // Several times the slots of a site, so that a burst of requests to an honest host is served.
    const isSiteQueueFull = siteWaiters.length >= 128;
    // `release` scans all waiters. This many take a fraction of a millisecond.
    const isQueueFull = this.#waiters.size >= 4_096 && !key.isExempt;
    if (isSiteQueueFull || isQueueFull) {
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
    this.#nonExemptCount -= isExempt ? 0 : 1;
    for (const waiter of this.#waiters) {
      if (this.#tryAcquire(waiter)) {
        waiter.grant();
      }
    }
  }

  #tryAcquire({ site, isExempt }: SlotKey): boolean {
    const { max, maxPerSite, shouldShrinkSiteShare } = this.#options;
    const freeFraction = isExempt ? 1 : 1 - this.#nonExemptCount / max;
    const siteLimit = shouldShrinkSiteShare ? Math.ceil(maxPerSite * freeFraction) : maxPerSite;
    if (freeFraction <= 0 || this.#usedBySite.get(site) >= siteLimit) {
      return false;
    }
    this.#usedBySite.increment(site);
    this.count += 1;
    this.#nonExemptCount += isExempt ? 0 : 1;
    return true;
  }

  #toKey(url: string): SlotKey {
    return this.#options.exemptUrls.includes(url)
      ? { site: url, isExempt: true }
      : { site: getSite(url), isExempt: false };
  }
}

interface SlotKey {
  /** The whole URL if it is exempt. */
  site: string;
  isExempt: boolean;
}
