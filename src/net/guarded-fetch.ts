import { isUtf8 } from 'node:buffer';
import { Agent, buildConnector, type Dispatcher } from 'undici';
import '../address-timeout.ts';
import { createGuardedLookup, type ResolveHostname } from './address-guard.ts';
import { createDnsResolver } from './dns-resolver.ts';
import { isAllowedPort, isForbiddenHost } from './public-address.ts';
import { RequestFailure, type RequestFailureReason, toFailureReason } from './request-failure.ts';
import { SiteSemaphore } from './site-semaphore.ts';

/** Tests use lower limits. */
const DEFAULT_LIMITS = {
  connectTimeoutMs: 5_000,
  /** A mint queries its Lightning node before it responds, which can take seconds. */
  headersTimeoutMs: 12_000,
  /** Includes the wait for a slot and for a connection. Payers do not wait longer. */
  totalTimeoutMs: 15_000,
  /** A batch check of 1000 quotes with long invoices is about 2 MB. */
  maxBodyBytes: 4 * 1024 * 1024,
  /** For all pending responses together. Allows 16 of the largest ones. */
  maxBufferedBytes: 64 * 1024 * 1024,
  /** Each request takes a file descriptor and at worst tens of kB. */
  maxInFlight: 1024,
  /** Rarely reached, because the rate limiter allows 16 requests per route of a mint. Further requests wait. */
  maxInFlightPerSite: 32,
};

/** Applies even if the host sends a longer time, because each idle connection takes a file descriptor. */
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
  /** Should be small. All pending responses share a budget of memory. */
  maxBodyBytes?: number;
}

/** A response may have any status; redirects are not followed. `text` is empty if the body is not UTF-8. */
export type GuardedResponse =
  /** Header names are in lower case. Of a repeated header, only the first value is included. */
  | { outcome: 'responded'; status: number; headers: ReadonlyMap<string, string>; text: string }
  /** `isUnsent`: no part of the request was sent. Absent if a part may have been sent. */
  | { outcome: 'unreachable'; reason: RequestFailureReason; isUnsent?: true };

/**
 * Sends HTTP requests to untrusted hosts. Allows only https to allowed ports of public addresses, which are checked
 * for each connection. Uses no redirects, no proxy from the environment and no compression. Limits size and time.
 */
export class GuardedFetch {
  readonly #allowPrivateNetworks: boolean;
  readonly #limits: FetchLimits;
  readonly #agent: Agent;
  readonly #bufferBudget: ResponseBufferBudget;
  readonly #slots: SiteSemaphore;

  /**
   * @param options.allowPrivateNetworks whether to allow http, any port and private addresses, for development
   * @param options.operatorOrigins have their own slots, which requests to other hosts cannot use up
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
    this.#slots = new SiteSemaphore({
      max: limits.maxInFlight,
      maxPerSite: limits.maxInFlightPerSite,
      shouldShrinkSiteShare: true,
      exemptUrls: options.operatorOrigins ?? [],
      isPortPartOfSite: options.allowPrivateNetworks,
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
      // Per host. Enough for 50 invoices a second at a mint that takes 300 ms for each; further requests wait.
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
      () => response.abort(new RequestFailure('timed out')),
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
      const reason = toFailureReason(error);
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

function unsentResponse(reason: RequestFailureReason): GuardedResponse {
  return { outcome: 'unreachable', reason, isUnsent: true };
}

function createGuardedConnector(
  options: buildConnector.BuildOptions,
  resolve: ResolveHostname,
): buildConnector.connector {
  const connect = buildConnector({ ...options, lookup: createGuardedLookup(resolve) });
  return (options, callback) => {
    if (isForbiddenHost(options.hostname)) {
      callback(new RequestFailure('forbidden address'), null);
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

/** The memory of a chunk in addition to its bytes: a host may send chunks of one byte. */
const CHUNK_OVERHEAD_BYTES = 256;

/** Responses with status 1xx (RFC 9110 section 15.2). Honest hosts send at most one. */
const MAX_INTERIM_RESPONSES = 8;

type Controller = Dispatcher.DispatchController;
type Headers = Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseStart']>>[2];

/** The memory for all pending responses together. */
interface ResponseBufferBudget {
  readonly maxBytes: number;
  usedBytes: number;
  /** Oldest first. */
  readonly pending: Set<BufferedResponse>;
}

/**
 * Sends a request and buffers its response as text. Aborts a response that is too large or compressed, because a few
 * kB can unpack to gigabytes. If all pending responses together are too large, aborts the oldest.
 */
class BufferedResponse implements Dispatcher.DispatchHandler {
  readonly #budget: ResponseBufferBudget;
  readonly #maxBytes: number;
  readonly #completed = Promise.withResolvers<{ status: number; headers: Headers; text: string }>();
  #controller: Controller | null = null;
  #abortReason: Error | null = null;
  #interimResponses = 0;
  #status = 0;
  #headers: Headers = {};
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(budget: ResponseBufferBudget, maxBytes: number) {
    this.#budget = budget;
    this.#maxBytes = maxBytes;
  }

  /** Whether any part of the request may have been sent. */
  get isRequestStarted(): boolean {
    return this.#controller !== null;
  }

  send(agent: Dispatcher, request: Dispatcher.DispatchOptions) {
    agent.dispatch(request, this);
    return this.#completed.promise;
  }

  /** Ends the request immediately, even if it still waits for a connection. */
  abort(reason: Error): void {
    this.#abortReason = reason;
    this.#controller?.abort(reason);
    this.#completed.reject(reason);
  }

  /** undici calls this before it writes the request. */
  onRequestStart(controller: Controller): void {
    if (this.#abortReason !== null) {
      controller.abort(this.#abortReason);
    } else {
      this.#controller = controller;
    }
  }

  onResponseStart(_controller: Controller, status: number, headers: Headers): void {
    this.#status = status;
    this.#headers = headers;
    this.#interimResponses += status < 200 ? 1 : 0;
    const encoding = String(headers['content-encoding'] ?? '').trim();
    if (this.#interimResponses > MAX_INTERIM_RESPONSES) {
      this.abort(new RequestFailure('response too large'));
    } else if (encoding !== '' && encoding.toLowerCase() !== 'identity') {
      this.abort(new RequestFailure('response compressed'));
    }
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    const budget = this.#budget;
    const bytes = chunk.byteLength + CHUNK_OVERHEAD_BYTES;
    this.#chunks.push(chunk);
    this.#bytes += bytes;
    budget.usedBytes += bytes;
    budget.pending.add(this);
    if (this.#bytes > this.#maxBytes) {
      this.abort(new RequestFailure('response too large'));
    }
    if (budget.usedBytes > budget.maxBytes) {
      const [oldest] = budget.pending;
      oldest?.abort(new RequestFailure('response too large'));
    }
  }

  onResponseEnd(): void {
    this.#release();
    const body = Buffer.concat(this.#chunks);
    // JSON is UTF-8 without a byte order mark (RFC 8259 section 8.1). The decoder removes the mark, and would take 5 ms
    // to replace a megabyte of invalid bytes.
    const text = isUtf8(body) ? new TextDecoder().decode(body) : '';
    this.#completed.resolve({ status: this.#status, headers: this.#headers, text });
  }

  onResponseError(_controller: Controller | null, error: Error): void {
    this.#release();
    this.#completed.reject(error);
  }

  #release(): void {
    this.#budget.usedBytes -= this.#bytes;
    this.#budget.pending.delete(this);
    this.#bytes = 0;
  }
}
