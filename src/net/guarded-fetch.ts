import type { ConnectionPolicy } from './guarded-connection.ts';
import { HttpClient, type HttpRequest, type HttpResponse, unsentResponse } from './http-client.ts';
import type { NetworkThread } from './network-thread.ts';
import { isAllowedPort } from './public-address.ts';
import { SiteSemaphore } from './site-semaphore.ts';

/** Tests use lower limits. */
export const DEFAULT_FETCH_LIMITS = {
  connectTimeoutMs: 5_000,
  /** A mint queries its Lightning node before it responds, which can take seconds. */
  headersTimeoutMs: 12_000,
  /** Includes the wait for a slot and for a connection. Payers do not wait longer. */
  totalTimeoutMs: 15_000,
  /** A batch check of 1000 quotes with long invoices is about 2 MB. */
  maxBodyBytes: 4 * 1024 * 1024,
  /** For all pending responses of a client together. Parsing takes up to twice as much of the network thread's heap. */
  maxBufferedBytes: 32 * 1024 * 1024,
  /** Each request takes a file descriptor and at worst tens of kB. */
  maxInFlight: 1024,
  /** Rarely reached, because the rate limiter allows 16 requests per route of a mint. Further requests wait. */
  maxInFlightPerSite: 32,
};

export type FetchLimits = typeof DEFAULT_FETCH_LIMITS;

export interface GuardedRequest extends Pick<HttpRequest, 'url' | 'method'> {
  /** Sent as JSON. */
  body?: unknown;
  /** Should be small. All pending responses share a budget of memory. */
  maxBodyBytes?: number;
}

export type GuardedResponse = HttpResponse;

interface GuardedFetchOptions extends ConnectionPolicy {
  /** Have their own slots, which requests to other hosts cannot use up. */
  operatorOrigins?: readonly string[];
  /** Sends the requests to other hosts. By default, this thread sends all requests. */
  networkThread?: Pick<NetworkThread, 'createHttpClient'>;
  limits?: Partial<FetchLimits>;
}

/**
 * Sends HTTP requests to untrusted hosts. Allows only https to allowed ports of public addresses, which are checked
 * for each connection. Limits size, time and number of requests.
 */
export class GuardedFetch {
  readonly #allowPrivateNetworks: boolean;
  readonly #operatorOrigins: readonly string[];
  readonly #limits: FetchLimits;
  readonly #operatorClient: HttpClient;
  readonly #otherClient: Pick<HttpClient, 'request' | 'close'>;
  readonly #slots: SiteSemaphore;

  constructor({ operatorOrigins = [], networkThread, limits, ...policy }: GuardedFetchOptions) {
    const { allowPrivateNetworks } = policy;
    this.#allowPrivateNetworks = allowPrivateNetworks;
    this.#operatorOrigins = operatorOrigins;
    this.#limits = { ...DEFAULT_FETCH_LIMITS, ...limits };
    this.#operatorClient = new HttpClient(policy, this.#limits);
    this.#otherClient = networkThread?.createHttpClient() ?? this.#operatorClient;
    this.#slots = new SiteSemaphore({
      max: this.#limits.maxInFlight,
      maxPerSite: this.#limits.maxInFlightPerSite,
      shouldShrinkSiteShare: true,
      exemptUrls: operatorOrigins,
      allowPrivateNetworks,
    });
  }

  /**
   * Sends one request. Failures of the host are results, not exceptions.
   *
   * @throws TypeError if the URL is invalid or the body is not JSON
   */
  async request({ url, method, body, maxBodyBytes }: GuardedRequest): Promise<GuardedResponse> {
    const target = new URL(url);
    const { origin } = target;
    const jsonBody = body === undefined ? null : JSON.stringify(body);
    if (!this.#allowPrivateNetworks && target.protocol !== 'https:') {
      return unsentResponse('https required');
    }
    if (!this.#allowPrivateNetworks && !isAllowedPort(target)) {
      return unsentResponse('forbidden port');
    }
    const deadlineMs = performance.now() + this.#limits.totalTimeoutMs;
    if (!(await this.#slots.acquireWithin(origin, this.#limits.totalTimeoutMs))) {
      return unsentResponse('too many requests in flight');
    }
    const client = this.#operatorOrigins.includes(origin)
      ? this.#operatorClient
      : this.#otherClient;
    try {
      return await client.request({
        url,
        method,
        jsonBody,
        maxBodyBytes: Math.min(maxBodyBytes ?? Infinity, this.#limits.maxBodyBytes),
        timeoutMs: deadlineMs - performance.now(),
      });
    } finally {
      this.#slots.release(origin);
    }
  }

  /** Ends pending requests as `closed`. Connections in the network thread close with the thread. */
  async close(): Promise<void> {
    await Promise.all([this.#operatorClient.close(), this.#otherClient.close()]);
  }
}
