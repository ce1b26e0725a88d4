import type { ConnectionPolicy } from './guarded-connection.ts';
import {
  HttpClient,
  type HttpRequest,
  type HttpResponse,
  type HttpSender,
  unsentResponse,
} from './http-client.ts';
import { FETCH_LIMITS, type FetchLimits } from './limits.ts';
import { SiteSemaphore } from './site-semaphore.ts';

export interface GuardedRequest extends Pick<HttpRequest, 'url' | 'method'> {
  body?: unknown;
  /** Should be small. All pending responses share a budget of memory. */
  maxBodyBytes?: number;
}

export type GuardedResponse = HttpResponse;

interface GuardedFetchOptions extends ConnectionPolicy {
  /** Have their own slots, which requests to other hosts cannot use up. */
  operatorOrigins?: readonly string[];
  /** Sends the requests to other hosts. By default, this thread sends all requests. */
  otherClient?: HttpSender;
  limits?: FetchLimits;
}

/** Sends HTTP requests to untrusted hosts with an {@link HttpClient}. Limits their number, in total and per site. */
export class GuardedFetch {
  readonly #operatorOrigins: readonly string[];
  readonly #limits: FetchLimits;
  readonly #operatorClient: HttpSender;
  readonly #otherClient: HttpSender;
  readonly #slots: SiteSemaphore;

  constructor({
    operatorOrigins = [],
    otherClient,
    limits = FETCH_LIMITS,
    ...policy
  }: GuardedFetchOptions) {
    this.#operatorOrigins = operatorOrigins;
    this.#limits = limits;
    this.#operatorClient = new HttpClient(policy, limits);
    this.#otherClient = otherClient ?? this.#operatorClient;
    this.#slots = new SiteSemaphore({
      max: limits.maxInFlight,
      maxPerSite: limits.maxInFlightPerSite,
      shouldShrinkSiteShare: true,
      exemptUrls: operatorOrigins,
      allowPrivateNetworks: policy.allowPrivateNetworks,
    });
  }

  /**
   * Sends one request. Failures of the host are results, not exceptions.
   *
   * @throws TypeError if the URL is invalid or the body is not JSON
   */
  async request({ url, method, body, maxBodyBytes }: GuardedRequest): Promise<GuardedResponse> {
    const { origin } = new URL(url);
    const jsonBody = body === undefined ? null : JSON.stringify(body);
    const deadlineMs = performance.now() + this.#limits.totalTimeoutMs;
    if (!(await this.#slots.acquireWithin(origin, this.#limits.totalTimeoutMs))) {
      return unsentResponse('too many requests in flight');
    }
    const isOperatorOrigin = this.#operatorOrigins.includes(origin);
    const client = isOperatorOrigin ? this.#operatorClient : this.#otherClient;
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
