import { KeyedCounter } from '../keyed-counters.ts';

/** Several times a host's slots, so that a burst of requests to an honest host is served. */
const MAX_WAITERS_PER_HOST = 128;

/** For all hosts together, except exempt URLs: scanning them takes a fraction of a millisecond. */
const MAX_WAITERS = 4_096;

interface HostSemaphoreOptions {
  max: number;
  maxPerHost: number;
  /** Shrinks a host's share as the slots fill, down to one: the owner of a domain can create any number of hosts. */
  shouldShrinkHostShare?: boolean;
  exemptUrls: readonly string[];
  /** For development, when all mints run on this machine: each port counts as a host. */
  allowPrivateNetworks: boolean;
}

/** An exempt URL counts as a host of its own. */
interface SlotKey {
  host: string;
  isExempt: boolean;
}

/**
 * Limits what this process has open at a time, per host and in total, because users can name any number of
 * hosts and URLs. Exempt URLs, which the operator names, do not count towards their host or the total.
 */
export class HostSemaphore {
  count = 0;
  readonly #options: HostSemaphoreOptions;
  readonly #usedByHost = new KeyedCounter();
  #nonExemptCount = 0;
  /** In order of arrival. */
  readonly #waiters = new Set<SlotKey & { grant: () => void }>();
  readonly #waitersByHost = new KeyedCounter();

  constructor(options: HostSemaphoreOptions) {
    this.#options = options;
  }

  /** Acquires a slot; returns false if none is free. */
  tryAcquire(url: string): boolean {
    return this.#tryAcquire(this.#toKey(url));
  }

  /** Acquires a slot in order of arrival; resolves with false if none becomes free in this time. */
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
    this.#nonExemptCount -= Number(!isExempt);
    for (const waiter of this.#waiters) {
      if (this.#tryAcquire(waiter)) {
        waiter.grant();
      }
    }
  }

  #tryAcquire({ host, isExempt }: SlotKey): boolean {
    const { max, maxPerHost, shouldShrinkHostShare } = this.#options;
    const freeFraction = isExempt ? 1 : 1 - this.#nonExemptCount / max;
    const share = shouldShrinkHostShare ? Math.ceil(maxPerHost * freeFraction) : maxPerHost;
    if (freeFraction <= 0 || this.#usedByHost.get(host) >= share) {
      return false;
    }
    this.#usedByHost.increment(host);
    this.count += 1;
    this.#nonExemptCount += Number(!isExempt);
    return true;
  }

  #toKey(url: string): SlotKey {
    if (this.#options.exemptUrls.includes(url)) {
      return { host: url, isExempt: true };
    }
    const { origin, hostname } = new URL(url);
    // Without the port, because one machine can listen on all of them.
    const host = this.#options.allowPrivateNetworks ? origin : hostname.replace(/\.$/, '');
    return { host, isExempt: false };
  }
}
