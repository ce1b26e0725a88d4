import { Agent, buildConnector, type Dispatcher } from 'undici';
import { forbiddenAddressError, guardedLookup, isForbiddenLiteral } from './address-guard.ts';
import { type UnreachableReason, unreachableReason } from './unreachable-reason.ts';

/** A host that does not take a connection in this time is as good as dead; a payer is waiting. */
const CONNECT_TIMEOUT_MS = 5_000;

/** A mint asks its Lightning node before it answers, which takes seconds on a bad day. */
const HEADERS_TIMEOUT_MS = 12_000;

/** From the call to the last byte, waiting for a free connection included: payers give up by then. */
const TOTAL_TIMEOUT_MS = 15_000;

/** A batch check of 1000 quotes with long invoices is about 2 MB. */
const MAX_BODY_BYTES = 4 * 1024 * 1024;

/** Node's own default for servers: no honest answer has more. */
const MAX_HEADER_BYTES = 16 * 1024;

/** Enough that one slow answer holds up nobody, and few enough not to trouble a small mint. */
const MAX_CONNECTIONS_PER_ORIGIN = 8;

/** Running and waiting together; beyond it a slow origin would only collect requests that time out. */
const MAX_IN_FLIGHT_PER_ORIGIN = 128;

/** Some hosts turn away requests that name no program. */
const USER_AGENT = 'nutpost';

/** Bounds that tests shorten; production takes the constants above. */
export interface FetchLimits {
  connectTimeoutMs: number;
  headersTimeoutMs: number;
  totalTimeoutMs: number;
  maxBodyBytes: number;
  maxInFlightPerOrigin: number;
}

/** A request to a remote party that nobody vouches for. */
export interface GuardedRequest {
  url: string;
  method: 'GET' | 'POST';
  /** Sent as JSON. */
  body?: unknown;
}

/** What came of it. An answer of any status is an answer; redirects are not followed. */
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
      /** Certainly not a byte of the request was sent; absent where some may have been. */
      isUnsent?: true;
    };

/**
 * HTTP to hosts that strangers name: only https to public addresses, judged at each connection; no
 * redirect, no proxy from the environment, and a bound on size, time and concurrency.
 */
export class GuardedFetch {
  readonly #allowPrivateNetworks: boolean;
  readonly #limits: FetchLimits;
  readonly #agent: Agent;
  readonly #inFlightByOrigin = new Map<string, number>();

  /** @param options.allowPrivateNetworks opens http and private addresses, for development */
  constructor(options: { allowPrivateNetworks: boolean; limits?: Partial<FetchLimits> }) {
    this.#allowPrivateNetworks = options.allowPrivateNetworks;
    this.#limits = {
      connectTimeoutMs: CONNECT_TIMEOUT_MS,
      headersTimeoutMs: HEADERS_TIMEOUT_MS,
      totalTimeoutMs: TOTAL_TIMEOUT_MS,
      maxBodyBytes: MAX_BODY_BYTES,
      maxInFlightPerOrigin: MAX_IN_FLIGHT_PER_ORIGIN,
      ...options.limits,
    };
    // HTTP/1.1 alone, so that the bounds on headers and body are those of one parser.
    const connect = { timeout: this.#limits.connectTimeoutMs, allowH2: false };
    this.#agent = new Agent({
      connect: options.allowPrivateNetworks ? buildConnector(connect) : guardedConnector(connect),
      connections: MAX_CONNECTIONS_PER_ORIGIN,
      pipelining: 1,
      headersTimeout: this.#limits.headersTimeoutMs,
      bodyTimeout: this.#limits.totalTimeoutMs,
      maxHeaderSize: MAX_HEADER_BYTES,
      maxResponseSize: this.#limits.maxBodyBytes,
    });
  }

  /** Sends one request. Never throws for anything that the remote party does. */
  async request(request: GuardedRequest): Promise<GuardedAnswer> {
    const { origin, protocol } = new URL(request.url);
    if (protocol !== 'https:' && !this.#allowPrivateNetworks) {
      return { outcome: 'unreachable', reason: 'https required', isUnsent: true };
    }
    const inFlight = this.#inFlightByOrigin.get(origin) ?? 0;
    if (inFlight >= this.#limits.maxInFlightPerOrigin) {
      return { outcome: 'unreachable', reason: 'too many requests in flight', isUnsent: true };
    }
    this.#inFlightByOrigin.set(origin, inFlight + 1);
    let isBegun = false;
    const dispatcher = this.#agent.compose(
      tellingOfStart(() => {
        isBegun = true;
      }),
    );
    try {
      return await this.#send(request, dispatcher);
    } catch (error) {
      const reason = unreachableReason(error);
      return { outcome: 'unreachable', reason, ...(!isBegun && { isUnsent: true }) };
    } finally {
      this.#leave(origin);
    }
  }

  /** Ends every connection at once; requests that are still running are answered `closed`. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #send(request: GuardedRequest, dispatcher: Dispatcher): Promise<GuardedAnswer> {
    const { origin, pathname, search } = new URL(request.url);
    const hasBody = request.body !== undefined;
    const response = await dispatcher.request({
      origin,
      path: pathname + search,
      method: request.method,
      headers: {
        accept: 'application/json',
        'user-agent': USER_AGENT,
        ...(hasBody && { 'content-type': 'application/json' }),
      },
      ...(hasBody && { body: JSON.stringify(request.body) }),
      signal: AbortSignal.timeout(this.#limits.totalTimeoutMs),
    });
    const text = await response.body.text();
    return {
      outcome: 'answered',
      status: response.statusCode,
      headers: singleHeaders(response.headers),
      text,
    };
  }

  #leave(origin: string): void {
    const left = (this.#inFlightByOrigin.get(origin) ?? 1) - 1;
    if (left === 0) {
      this.#inFlightByOrigin.delete(origin);
    } else {
      this.#inFlightByOrigin.set(origin, left);
    }
  }
}

/** Calls back right before a request is written to its connection: an earlier failure is none of it. */
function tellingOfStart(onStart: () => void): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) =>
    dispatch(options, {
      onRequestStart: (controller, context) => {
        handler.onRequestStart?.(controller, context);
        // What ran out of time while it waited for a connection is dropped here.
        if (!controller.aborted) {
          onStart();
        }
      },
      onResponseStart: (...args) => handler.onResponseStart?.(...args),
      onResponseData: (...args) => handler.onResponseData?.(...args),
      onResponseEnd: (...args) => handler.onResponseEnd?.(...args),
      onResponseError: (...args) => handler.onResponseError?.(...args),
    });
}

function guardedConnector(options: buildConnector.BuildOptions): buildConnector.connector {
  const connect = buildConnector({ ...options, lookup: guardedLookup() });
  return (options, callback) => {
    if (isForbiddenLiteral(options.hostname)) {
      callback(forbiddenAddressError(), null);
    } else {
      connect(options, callback);
    }
  };
}

function singleHeaders(
  headers: Record<string, string | string[] | undefined>,
): ReadonlyMap<string, string> {
  const single = new Map<string, string>();
  for (const [name, value] of Object.entries(headers)) {
    const first = Array.isArray(value) ? value[0] : value;
    if (first !== undefined) {
      single.set(name.toLowerCase(), first);
    }
  }
  return single;
}
