import { Agent, buildConnector } from 'undici';
import { createGuardedLookup, type ResolveHostname } from './address-guard.ts';
import { BufferedResponse, type ResponseBufferBudget } from './buffered-response.ts';
import { createDnsResolver } from './dns-resolver.ts';
import { HostSemaphore } from './host-semaphore.ts';
import { isAllowedPort, isForbiddenHost } from './public-address.ts';
import {
  toUnreachableReason,
  UnreachableError,
  type UnreachableReason,
} from './unreachable-reason.ts';

/** Tests shorten some of them. */
const DEFAULT_LIMITS = {
  connectTimeoutMs: 5_000,
  /** A mint queries its Lightning node before it responds, which can take seconds. */
  headersTimeoutMs: 12_000,
  /** Includes the wait for a slot and a connection. Payers give up by then. */
  totalTimeoutMs: 15_000,
  /** A batch check of 1000 quotes with long invoices is about 2 MB. */
  maxBodyBytes: 4 * 1024 * 1024,
  /** For all pending responses together: 16 of the largest ones. */
  maxBufferedBytes: 64 * 1024 * 1024,
  /** Each takes a file descriptor and at worst tens of kB. */
  maxInFlight: 1024,
  /** The rate limiter allows 16 per route of a mint, so more are rare; they wait. */
  maxInFlightPerHost: 32,
};

/** Regardless of what the host requests: each idle connection takes a file descriptor. */
const KEEP_ALIVE_MS = 4_000;

/** Some hosts reject requests without a user agent. */
const REQUEST_HEADERS = {
  accept: 'application/json',
  'accept-encoding': 'identity',
  'user-agent': 'nutpost',
};

export type FetchLimits = typeof DEFAULT_LIMITS;

export interface GuardedRequest {
  url: string;
  method: 'GET' | 'POST';
  /** Sent as JSON. */
  body?: unknown;
  /** As small as possible: parsing a megabyte of JSON blocks the event loop for up to 100 ms. */
  maxBodyBytes?: number;
}

/** A response may have any status; redirects are not followed. */
export type GuardedResponse =
  /** Header names are in lower case, with the first value of a repeated header. */
  | { outcome: 'responded'; status: number; headers: ReadonlyMap<string, string>; text: string }
  /** `isUnsent`: nothing of the request was sent; absent if some of it may have been. */
  | { outcome: 'unreachable'; reason: UnreachableReason; isUnsent?: true };

/**
 * Sends HTTP requests to untrusted hosts: only https to allowed ports of public addresses, checked for each
 * connection; no redirects, no proxy from the environment, no compression, and limits on size, time and
 * concurrency.
 */
export class GuardedFetch {
  readonly #allowPrivateNetworks: boolean;
  readonly #limits: FetchLimits;
  readonly #agent: Agent;
  readonly #bufferBudget: ResponseBufferBudget;
  readonly #slots: HostSemaphore;

  /**
   * @param options.allowPrivateNetworks allows http, any port and private addresses, for development
   * @param options.operatorOrigins have their own slots, so that other requests cannot use them up
   */
  constructor(options: {
    allowPrivateNetworks: boolean;
    operatorOrigins?: readonly string[];
    limits?: Partial<FetchLimits>;
    resolve?: ResolveHostname;
  }) {
    const limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#allowPrivateNetworks = options.allowPrivateNetworks;
    this.#limits = limits;
    this.#bufferBudget = { maxBytes: limits.maxBufferedBytes, usedBytes: 0, pending: new Set() };
    this.#slots = new HostSemaphore({
      max: limits.maxInFlight,
      maxPerHost: limits.maxInFlightPerHost,
      shouldShrinkHostShare: true,
      exemptUrls: options.operatorOrigins ?? [],
      allowPrivateNetworks: options.allowPrivateNetworks,
    });
    const connect = {
      timeout: limits.connectTimeoutMs,
      // HTTP/1.1 only, so that a single parser enforces the limits on headers and body.
      allowH2: false,
      // Explicit, because the environment can change the default (NODE_TLS_REJECT_UNAUTHORIZED).
      rejectUnauthorized: true,
    };
    this.#agent = new Agent({
      connect: options.allowPrivateNetworks
        ? buildConnector(connect)
        : createGuardedConnector(connect, options.resolve ?? createDnsResolver()),
      // Enough for 50 invoices a second at a mint that takes 300 ms for each. Further requests wait.
      connections: 16,
      pipelining: 1,
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: KEEP_ALIVE_MS,
      headersTimeout: limits.headersTimeoutMs,
      bodyTimeout: limits.totalTimeoutMs,
      // Node's default for servers.
      maxHeaderSize: 16 * 1024,
    });
  }

  /**
   * Sends one request. Failures of the host are results, not exceptions.
   *
   * @throws TypeError if the URL is invalid or the body is not JSON
   */
  async request({ url, method, body, maxBodyBytes }: GuardedRequest): Promise<GuardedResponse> {
    const target = new URL(url);
    const json = body === undefined ? null : JSON.stringify(body);
    if (!this.#allowPrivateNetworks && target.protocol !== 'https:') {
      return unsentResponse('https required');
    }
    if (!this.#allowPrivateNetworks && !isAllowedPort(target)) {
      return unsentResponse('forbidden port');
    }
    const deadlineMs = performance.now() + this.#limits.totalTimeoutMs;
    if (!(await this.#slots.acquireWithin(target.origin, this.#limits.totalTimeoutMs))) {
      return unsentResponse('too many requests in flight');
    }
    const maxBytes = Math.min(maxBodyBytes ?? Infinity, this.#limits.maxBodyBytes);
    const response = new BufferedResponse(this.#bufferBudget, maxBytes);
    const timer = setTimeout(
      () => response.abort(new UnreachableError('timed out')),
      deadlineMs - performance.now(),
    ).unref();
    try {
      const result = await response.send(this.#agent, {
        origin: target.origin,
        path: target.pathname + target.search,
        method,
        headers: { ...REQUEST_HEADERS, ...(json && { 'content-type': 'application/json' }) },
        body: json,
      });
      return { outcome: 'responded', ...result, headers: firstHeaderValues(result.headers) };
    } catch (error) {
      const reason = toUnreachableReason(error);
      return response.isRequestStarted
        ? { outcome: 'unreachable', reason }
        : unsentResponse(reason);
    } finally {
      clearTimeout(timer);
      this.#slots.release(target.origin);
    }
  }

  /** Closes all connections; pending requests end as `closed`. */
  close(): Promise<void> {
    return this.#agent.destroy();
  }
}

function unsentResponse(reason: UnreachableReason): GuardedResponse {
  return { outcome: 'unreachable', reason, isUnsent: true };
}

function createGuardedConnector(
  options: buildConnector.BuildOptions,
  resolve: ResolveHostname,
): buildConnector.connector {
  const connect = buildConnector({ ...options, lookup: createGuardedLookup(resolve) });
  return (options, callback) => {
    if (isForbiddenHost(options.hostname)) {
      callback(new UnreachableError('forbidden address'), null);
    } else {
      connect(options, callback);
    }
  };
}

function firstHeaderValues(
  headers: Record<string, string | string[] | undefined>,
): ReadonlyMap<string, string> {
  const names = Object.keys(headers);
  return new Map(names.map((name) => [name.toLowerCase(), [headers[name]].flat()[0] ?? '']));
}
