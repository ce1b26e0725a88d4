import { Counts } from '../keyed-counters.ts';

/** For a slot of one host: several times its slots, so that a burst at an honest host is served. */
const MAX_WAITING_PER_HOST = 128;

/** For all slots, without those of trusted URLs: passing over them takes a fraction of a millisecond. */
const MAX_WAITING = 4_096;

interface Waiter {
  /** As `#keyOf` returns it. */
  key: string;
  isTrusted: boolean;
  grant: () => void;
}

/**
 * Limits what this process has open at a time for each host, and for all hosts together: users choose hosts,
 * and can invent any number of URLs. A trusted URL, which the operator names, does not count towards its host
 * or towards the total.
 */
export class HostSlots {
  readonly #max: number;
  readonly #maxPerHost: number;
  readonly #sharesShrink: boolean;
  readonly #trusted: ReadonlySet<string>;
  readonly #allowPrivateNetworks: boolean;
  readonly #used = new Counts();
  #count = 0;
  /** Without those of trusted URLs. */
  #othersCount = 0;
  /** In order of arrival. Each can take no slot now: {@link release} serves those that can. */
  readonly #waiting = new Set<Waiter>();
  readonly #waitingOfHost = new Counts();

  /**
   * @param options.sharesShrink whether a host's share shrinks as the slots fill, down to one, because the owner
   *   of a domain has any number of hosts
   */
  constructor(options: {
    max: number;
    maxPerHost: number;
    sharesShrink?: boolean;
    trusted: readonly string[];
    allowPrivateNetworks: boolean;
  }) {
    this.#max = options.max;
    this.#maxPerHost = options.maxPerHost;
    this.#sharesShrink = options.sharesShrink ?? false;
    this.#trusted = new Set(options.trusted);
    this.#allowPrivateNetworks = options.allowPrivateNetworks;
  }

  get count(): number {
    return this.#count;
  }

  /** Takes a slot; returns false if there is none. */
  acquire(url: string): boolean {
    return this.#take(this.#keyOf(url), this.#trusted.has(url));
  }

  #take(key: string, isTrusted: boolean): boolean {
    const freePart = isTrusted ? 1 : 1 - this.#othersCount / this.#max;
    const share = this.#sharesShrink ? Math.ceil(this.#maxPerHost * freePart) : this.#maxPerHost;
    if (freePart <= 0 || this.#used.of(key) >= share) {
      return false;
    }
    this.#used.add(key);
    this.#count += 1;
    this.#othersCount += Number(!isTrusted);
    return true;
  }

  /** Takes a slot, in order of arrival; resolves with false if there is none in this time. */
  acquireWithin(url: string, waitMs: number): Promise<boolean> {
    const key = this.#keyOf(url);
    const isTrusted = this.#trusted.has(url);
    if (this.#take(key, isTrusted)) {
      return Promise.resolve(true);
    }
    const isCrowded = this.#waiting.size >= MAX_WAITING && !isTrusted;
    if (isCrowded || this.#waitingOfHost.of(key) >= MAX_WAITING_PER_HOST) {
      return Promise.resolve(false);
    }
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const end = (isGranted: boolean) => {
      clearTimeout(timer);
      this.#waiting.delete(waiter);
      this.#waitingOfHost.remove(key);
      resolve(isGranted);
    };
    const waiter = { key, isTrusted, grant: () => end(true) };
    const timer = setTimeout(() => end(false), waitMs).unref();
    this.#waiting.add(waiter);
    this.#waitingOfHost.add(key);
    return promise;
  }

  /** Returns a slot, and gives free slots to the requests that wait for one. */
  release(url: string): void {
    this.#used.remove(this.#keyOf(url));
    this.#count -= 1;
    this.#othersCount -= Number(!this.#trusted.has(url));
    for (const waiter of this.#waiting) {
      if (this.#take(waiter.key, waiter.isTrusted)) {
        waiter.grant();
      }
    }
  }

  /**
   * The host, whatever the port, because one machine can answer on all of them. In development, when every
   * mint is on this machine, each port counts by itself.
   */
  #keyOf(url: string): string {
    const { origin, hostname } = new URL(url);
    const host = this.#allowPrivateNetworks ? origin : hostname.replace(/\.$/, '');
    return this.#trusted.has(url) ? url : host;
  }
}
