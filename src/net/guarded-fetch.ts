import type { ConnectionPolicy } from './guarded-connection.ts';
import { HttpClient, type HttpResponse, type HttpSender, unsentResponse } from './http-client.ts';
import { FETCH_LIMITS, type FetchLimits } from './limits.ts';
import { SiteSemaphore } from './site-semaphore.ts';

export interface GuardedRequest {
  url: string;
  /** Sent with POST: bytes as they are, everything else as JSON. Without a body, the request is a GET. */
  body?: unknown;
  /** In addition to the usual ones. */
  headers?: Readonly<Record<string, string>>;
  /** Should be small, because all pending responses share {@link FetchLimits.maxBufferedBytes}. */
  maxBodyBytes?: number;
}

interface GuardedFetchOptions extends ConnectionPolicy {
  /** Have their own slots, which requests to other hosts cannot use up. */
  operatorOrigins?: readonly string[];
  /** Sends the requests to these origins. By default, an {@link HttpClient} of this thread. */
  operatorClient?: HttpSender;
  /** Sends the requests to other hosts. By default, the same client. */
  otherClient?: HttpSender;
  limits?: FetchLimits;
}

/** Sends HTTP requests to untrusted hosts with an {@link HttpClient}. Limits their number, in total and per site. */
export class GuardedFetch {
  readonly #limits: FetchLimits;
  readonly #operatorOrigins: readonly string[];
  readonly #operatorClient: HttpSender;
  readonly #otherClient: HttpSender;
  readonly #slots: SiteSemaphore;

  constructor(options: GuardedFetchOptions) {
    const { operatorOrigins = [], limits = FETCH_LIMITS } = options;
    this.#operatorOrigins = operatorOrigins;
    this.#limits = limits;
    this.#operatorClient = options.operatorClient ?? new HttpClient(options, limits);
    this.#otherClient = options.otherClient ?? this.#operatorClient;
    this.#slots = new SiteSemaphore({
      max: limits.maxInFlight,
      maxPerSite: limits.maxInFlightPerSite,
      // The fewer slots are free, the fewer a site may use.
      shouldShrinkSiteShare: true,
      exemptUrls: operatorOrigins,
    });
  }

  async request({ url, body, headers = {}, maxBodyBytes }: GuardedRequest): Promise<HttpResponse> {
    const { origin } = new URL(url);
    const { totalTimeoutMs } = this.#limits;
    const deadlineMs = performance.now() + totalTimeoutMs;
    if (!(await this.#slots.acquireWithin(origin, totalTimeoutMs))) {
      return unsentResponse('too many requests in flight');
    }
    const isOperatorOrigin = this.#operatorOrigins.includes(origin);
    const client = isOperatorOrigin ? this.#operatorClient : this.#otherClient;
    try {
      return await client.request({
        url,
        body: body instanceof Uint8Array ? body : toJson(body),
        headers,
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

function toJson(body: unknown): string | null {
  return body === undefined ? null : JSON.stringify(body);
}
