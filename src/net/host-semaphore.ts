import { KeyedCounter } from '../keyed-counter.ts';

/** Several times the slots of a host, so that a burst of requests to an honest host is served. */
const MAX_WAITERS_PER_HOST = 128;

/** For all hosts together, without exempt URLs. Scanning this many waiters takes a fraction of a millisecond. */
const MAX_WAITERS = 4_096;

interface HostSemaphoreOptions {
  max: number;
  maxPerHost: number;
  /** Whether `maxPerHost` shrinks as the slots fill, so that the many hosts of one domain cannot use them all. */
  shouldShrinkHostShare?: boolean;
  exemptUrls: readonly string[];
  /** For development, when all mints run on one machine. */
  isPortPartOfHost: boolean;
}

interface SlotKey {
  /** The whole URL if it is exempt. */
  host: string;
  isExempt: boolean;
}

/**
 * Limits how many requests or connections are open at a time, per host and in total, because users can name any number
 * of hosts. Exempt URLs
 * belong to the operator. Each of them has its own slots and does not count towards the total.
 */
export class HostSemaphore {
  /** How many slots are in use. */
  count = 0;
  readonly #options: HostSemaphoreOptions;
  readonly #usedByHost = new KeyedCounter();
  #usedNonExemptCount = 0;
  /** In order of arrival. */
  readonly #waiters = new Set<SlotKey & { grant: () => void }>();
  readonly #waitersByHost = new KeyedCounter();

  constructor(options: HostSemaphoreOptions) {
    this.#options = options;
  }

  tryAcquire(url: string): boolean {
    return this.#tryAcquire(this.#toKey(url));
  }

  /** Acquires a slot in order of arrival. Resolves with false if no slot becomes free in time. */
  acquireWithin(url: string, maxWaitMs: number): Promise<boolean> {
    const key = this.#toKey(url);
    const { host, isExempt } = key;
    if (this.#tryAcquire(key)) {
      return Promise.resolve(true);
    }
    const isQueueFull = this.#waiters.size >= MAX_WAITERS && !isExempt;
    if (isQueueFull || this.#waitersByHost.get(host) >= MAX_WAITERS_PER_HOST) {
      return Promise.resolve(false);
    }
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const finish = (isGranted: boolean) => {
      clearTimeout(timer);
      this.#waiters.delete(waiter);
      this.#waitersByHost.decrement(host);
      resolve(isGranted);
    };
    const waiter = { ...key, grant: () => finish(true) };
    const timer = setTimeout(() => finish(false), maxWaitMs).unref();
    this.#waiters.add(waiter);
    this.#waitersByHost.increment(host);
    return promise;
  }

  /** Returns a slot, and grants free slots to waiting requests. */
  release(url: string): void {
    const { host, isExempt } = this.#toKey(url);
    this.#usedByHost.decrement(host);
    this.count -= 1;
    this.#usedNonExemptCount -= Number(!isExempt);
    for (const waiter of this.#waiters) {
      if (this.#tryAcquire(waiter)) {
        waiter.grant();
      }
    }
  }

  #tryAcquire({ host, isExempt }: SlotKey): boolean {
    const { max, maxPerHost, shouldShrinkHostShare } = this.#options;
    const freeFraction = isExempt ? 1 : 1 - this.#usedNonExemptCount / max;
    const share = shouldShrinkHostShare ? Math.ceil(maxPerHost * freeFraction) : maxPerHost;
    if (freeFraction <= 0 || this.#usedByHost.get(host) >= share) {
      return false;
    }
    this.#usedByHost.increment(host);
    this.count += 1;
    this.#usedNonExemptCount += Number(!isExempt);
    return true;
  }

  #toKey(url: string): SlotKey {
    if (this.#options.exemptUrls.includes(url)) {
      return { host: url, isExempt: true };
    }
    const { origin, hostname } = new URL(url);
    // Without the port, because one machine can listen on many ports.
    const host = this.#options.isPortPartOfHost ? origin : hostname.replace(/\.$/, '');
    return { host, isExempt: false };
  }
}
