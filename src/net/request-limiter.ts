import { LRUCache } from 'lru-cache';

/** Limits of requests that are running or waiting. */
export interface RequestLimits {
  maxInFlight: number;
  maxInFlightPerHost: number;
  /** Running; further ones wait. */
  maxRunningPerHost: number;
}

/** A host gets at most this number of places in the reserve, so that it takes 64 hosts to fill it. */
const MAX_RESERVED_PLACES = 8;

/** Far more hosts than are in use at a time. */
const MAX_REMEMBERED_HOSTS = 10_000;

interface HostRequests {
  inFlight: number;
  running: number;
  /** Each starts a request; the oldest comes first. */
  waiting: Set<() => void>;
}

/**
 * Limits concurrent requests for each host ({@link originKey}) and in total.
 *
 * A flood to silent hosts must not block requests to others. Half of all places are therefore a reserve for
 * hosts that respond: each may use as many of them as it gave consecutive responses, up to a few, and a
 * failure halves that number. The operator's hosts have places of their own, so that a host that responds
 * first and stalls later cannot take them either.
 */
export class RequestLimiter {
  readonly #limits: RequestLimits;
  readonly #trusted: ReadonlySet<string>;
  /** Without those to trusted hosts. */
  #inFlight = 0;
  readonly #hosts = new Map<string, HostRequests>();
  /** Consecutive responses by host. */
  readonly #responses = new LRUCache<string, number>({ max: MAX_REMEMBERED_HOSTS });

  /** @param trusted hosts that do not count towards the total */
  constructor(limits: RequestLimits, trusted: ReadonlySet<string>) {
    this.#limits = limits;
    this.#trusted = trusted;
  }

  /**
   * Sends a request, if necessary after waiting for others to its host. Rejects with the signal's reason if
   * that is aborted while the request waits.
   *
   * @returns null if there are too many requests
   */
  async run<T>(host: string, signal: AbortSignal, send: () => Promise<T>): Promise<T | null> {
    const requests = this.#hosts.get(host) ?? { inFlight: 0, running: 0, waiting: new Set() };
    if (requests.inFlight >= this.#maxFor(host)) {
      return null;
    }
    const counted = this.#trusted.has(host) ? 0 : 1;
    this.#hosts.set(host, requests);
    this.#inFlight += counted;
    requests.inFlight += 1;
    let hasResponded = false;
    try {
      await this.#start(requests, signal);
      const response = await send().finally(() => this.#startNext(requests));
      hasResponded = true;
      return response;
    } finally {
      this.#inFlight -= counted;
      requests.inFlight -= 1;
      if (requests.inFlight === 0) {
        this.#hosts.delete(host);
      }
      this.#count(host, hasResponded);
    }
  }

  #maxFor(host: string): number {
    const { maxInFlight, maxInFlightPerHost } = this.#limits;
    if (this.#trusted.has(host) || this.#inFlight < maxInFlight / 2) {
      return maxInFlightPerHost;
    }
    return this.#inFlight < maxInFlight ? (this.#responses.get(host) ?? 0) : 0;
  }

  async #start(requests: HostRequests, signal: AbortSignal): Promise<void> {
    if (requests.running < this.#limits.maxRunningPerHost) {
      requests.running += 1;
      return;
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    requests.waiting.add(resolve);
    signal.addEventListener('abort', () => {
      if (requests.waiting.delete(resolve)) {
        reject(signal.reason);
      }
    });
    await promise;
  }

  /** Passes the place of a request that has ended to the one that has waited the longest. */
  #startNext(requests: HostRequests): void {
    const [next] = requests.waiting;
    if (next === undefined) {
      requests.running -= 1;
    } else {
      requests.waiting.delete(next);
      next();
    }
  }

  #count(host: string, hasResponded: boolean): void {
    const before = this.#responses.get(host) ?? 0;
    const after = hasResponded ? Math.min(before + 1, MAX_RESERVED_PLACES) : Math.floor(before / 2);
    if (after > 0) {
      this.#responses.set(host, after);
    } else {
      this.#responses.delete(host);
    }
  }
}

/**
 * Returns what the limits of a remote host count: the host of a URL, whatever the port, because one machine can answer on
 * all of them. In development, when every mint is on this machine, each port counts by itself.
 */
export function originKey(url: URL, options: { allowPrivateNetworks: boolean }): string {
  return options.allowPrivateNetworks ? url.origin : url.hostname.replace(/\.$/, '');
}
