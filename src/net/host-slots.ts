import { Counts } from '../domain/counts.ts';

/**
 * Limits what this process has open at a time for each host, and for all hosts together: users choose hosts,
 * and can invent any number of URLs. A trusted URL, which the operator names, does not count towards its host
 * or towards the total.
 */
export class HostSlots {
  readonly #max: number;
  readonly #maxPerHost: number;
  readonly #trusted: ReadonlySet<string>;
  readonly #allowPrivateNetworks: boolean;
  readonly #used = new Counts();
  #count = 0;
  /** Without those of trusted URLs. */
  #othersCount = 0;

  constructor(options: {
    max: number;
    maxPerHost: number;
    trusted: readonly string[];
    allowPrivateNetworks: boolean;
  }) {
    this.#max = options.max;
    this.#maxPerHost = options.maxPerHost;
    this.#trusted = new Set(options.trusted);
    this.#allowPrivateNetworks = options.allowPrivateNetworks;
  }

  get count(): number {
    return this.#count;
  }

  /** Takes a slot; returns false if there is none. */
  acquire(url: string): boolean {
    const isTrusted = this.#trusted.has(url);
    const key = this.#keyOf(url);
    if (this.#used.of(key) >= this.#maxPerHost || (!isTrusted && this.#othersCount >= this.#max)) {
      return false;
    }
    this.#used.add(key);
    this.#count += 1;
    this.#othersCount += Number(!isTrusted);
    return true;
  }

  /** Gives back a slot that {@link acquire} took. */
  release(url: string): void {
    this.#used.remove(this.#keyOf(url));
    this.#count -= 1;
    this.#othersCount -= Number(!this.#trusted.has(url));
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
