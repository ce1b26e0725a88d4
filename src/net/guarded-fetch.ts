import { Agent, buildConnector } from 'undici';
import { guardedLookup, type ResolveAll } from './address-guard.ts';
import { BufferedResponse, type ResponseMemory } from './buffered-response.ts';
import { HostSlots } from './host-slots.ts';
import { isForbiddenHost, isPublicPort } from './public-address.ts';
import { nameResolver } from './resolve-names.ts';
import {
  UnreachableError,
  type UnreachableReason,
  unreachableReason,
} from './unreachable-reason.ts';

/** Limits of requests, and why they are what they are. Tests shorten some. */
const LIMITS = {
  /** A host that accepts no connection in this time is as good as dead; a payer is waiting. */
  connectTimeoutMs: 5_000,
  /** A mint asks its Lightning node before it responds, which takes seconds on a bad day. */
  headersTimeoutMs: 12_000,
  /** From the call to the last byte, including the wait for a slot and a connection: payers give up by then. */
  totalTimeoutMs: 15_000,
  /** Of one response: a batch check of 1000 quotes with long invoices is about 2 MB. */
  maxBodyBytes: 4 * 1024 * 1024,
  /** Of all pending responses: 16 of the largest ones; a small machine has several times as much. */
  maxBytesHeld: 64 * 1024 * 1024,
  /** Each is a file descriptor and some tens of kB at worst; hundreds of mints get their share. */
  maxInFlight: 1024,
  /** A mint's rate limiter sends 16 at a time on each route, so that an honest host has few more; those wait. */
  maxInFlightPerHost: 32,
};

/**
 * Enough that one slow response delays no other request, and few enough not to trouble a small mint: one that
 * takes 300 ms gives 50 invoices a second. Further requests wait for a connection.
 */
const MAX_CONNECTIONS_PER_ORIGIN = 16;

/** Node's own default for servers: no honest response has more. */
const MAX_HEADER_BYTES = 16 * 1024;

/** An idle connection is kept this long, whatever the host asks for: each is a file descriptor. */
const KEEP_IDLE_MS = 4_000;

/** Some hosts reject requests without a user agent. */
const HEADERS = {
  accept: 'application/json',
  'accept-encoding': 'identity',
  'user-agent': 'nutpost',
};

export type FetchLimits = typeof LIMITS;

export interface GuardedRequest {
  url: string;
  method: 'GET' | 'POST';
  /** Sent as JSON. */
  body?: unknown;
  /** Parsing a MB of JSON blocks the event loop for up to 100 ms: accept no more than an honest response has. */
  maxBodyBytes?: number;
}

/** A response of any status is an answer; redirects are not followed. */
export type GuardedAnswer =
  | {
      outcome: 'answered';
      status: number;
      /** Names in lower case; of a repeated header the first value. */
      headers: ReadonlyMap<string, string>;
      text: string;
    }
  | {
      outcome: 'unreachable';
      reason: UnreachableReason;
      /** No byte of the request was sent; absent if some may have been. */
      isUnsent?: true;
    };

/**
 * HTTP to hosts that users name: only https to public ports of public addresses, checked at each
 * connection; no redirect, no proxy from the environment, no compression, and limits of size, time and
 * concurrency.
 */
export class GuardedFetch {
  readonly #allowPrivateNetworks: boolean;
  readonly #limits: FetchLimits;
  readonly #agent: Agent;
  readonly #memory: ResponseMemory;
  readonly #slots: HostSlots;

  /**
   * @param options.allowPrivateNetworks allows http, any port and private addresses, for development
   * @param options.trustedOrigins those that the operator names: requests to other hosts, or to other ports
   *   of the same host, take none of their places and connections. All other checks apply
   * @param options.resolve finds the addresses that are checked
   */
  constructor(options: {
    allowPrivateNetworks: boolean;
    trustedOrigins?: readonly string[];
    limits?: Partial<FetchLimits>;
    resolve?: ResolveAll;
  }) {
    const limits = { ...LIMITS, ...options.limits };
    this.#allowPrivateNetworks = options.allowPrivateNetworks;
    this.#limits = limits;
    this.#memory = { maxBytes: limits.maxBytesHeld, bytes: 0, pending: new Set() };
    this.#slots = new HostSlots({
      max: limits.maxInFlight,
      maxPerHost: limits.maxInFlightPerHost,
      sharesShrink: true,
      trusted: options.trustedOrigins ?? [],
      allowPrivateNetworks: options.allowPrivateNetworks,
    });
    const connect = {
      timeout: limits.connectTimeoutMs,
      // HTTP/1.1 only, so that one parser enforces the limits of headers and body.
      allowH2: false,
      // The default is what the environment says (NODE_TLS_REJECT_UNAUTHORIZED).
      rejectUnauthorized: true,
    };
    this.#agent = new Agent({
      connect: options.allowPrivateNetworks
        ? buildConnector(connect)
        : guardedConnector(connect, options.resolve ?? nameResolver()),
      connections: MAX_CONNECTIONS_PER_ORIGIN,
      pipelining: 1,
      keepAliveTimeout: KEEP_IDLE_MS,
      keepAliveMaxTimeout: KEEP_IDLE_MS,
      headersTimeout: limits.headersTimeoutMs,
      bodyTimeout: limits.totalTimeoutMs,
      maxHeaderSize: MAX_HEADER_BYTES,
    });
  }

  /**
   * Sends one request. Never throws for anything that the host does.
   *
   * @throws TypeError if the URL is invalid or the body is not JSON
   */
  async request({ url, method, body, maxBodyBytes }: GuardedRequest): Promise<GuardedAnswer> {
    const target = new URL(url);
    const json = body === undefined ? null : JSON.stringify(body);
    if (!this.#allowPrivateNetworks && target.protocol !== 'https:') {
      return unsent('https required');
    }
    if (!this.#allowPrivateNetworks && !isPublicPort(target)) {
      return unsent('forbidden port');
    }
    const endsAtMs = performance.now() + this.#limits.totalTimeoutMs;
    if (!(await this.#slots.acquireWithin(target.origin, this.#limits.totalTimeoutMs))) {
      return unsent('too many requests in flight');
    }
    const maxBytes = Math.min(maxBodyBytes ?? Infinity, this.#limits.maxBodyBytes);
    const response = new BufferedResponse(this.#memory, maxBytes);
    const timer = setTimeout(
      () => response.abort(new UnreachableError('timed out')),
      endsAtMs - performance.now(),
    ).unref();
    try {
      const answer = await response.receive(this.#agent, {
        origin: target.origin,
        path: target.pathname + target.search,
        method,
        headers: json === null ? HEADERS : { ...HEADERS, 'content-type': 'application/json' },
        body: json,
      });
      return { outcome: 'answered', ...answer, headers: singleHeaders(answer.headers) };
    } catch (error) {
      const reason = unreachableReason(error);
      return response.isStarted ? { outcome: 'unreachable', reason } : unsent(reason);
    } finally {
      clearTimeout(timer);
      this.#slots.release(target.origin);
    }
  }

  /** Ends every connection; pending requests end as `closed`. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}

function unsent(reason: UnreachableReason): GuardedAnswer {
  return { outcome: 'unreachable', reason, isUnsent: true };
}

function guardedConnector(
  options: buildConnector.BuildOptions,
  resolve: ResolveAll,
): buildConnector.connector {
  const connect = buildConnector({ ...options, lookup: guardedLookup(resolve) });
  return (options, callback) => {
    if (isForbiddenHost(options.hostname)) {
      callback(new UnreachableError('forbidden address'), null);
    } else {
      connect(options, callback);
    }
  };
}

function singleHeaders(
  headers: Record<string, string | string[] | undefined>,
): ReadonlyMap<string, string> {
  const names = Object.keys(headers);
  return new Map(names.map((name) => [name.toLowerCase(), [headers[name]].flat()[0] ?? '']));
}
