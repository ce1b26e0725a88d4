import { Agent, buildConnector } from 'undici';
import { isForbiddenHost } from '../domain/public-address.ts';
import { isPublicPort } from '../domain/public-port.ts';
import { forbiddenAddressError, guardedLookup, type ResolveAll } from './address-guard.ts';
import { AnswerGuard } from './answer-guard.ts';
import { ComingAnswer } from './coming-answer.ts';
import { InFlight, type InFlightLimits } from './in-flight.ts';
import { remoteParty } from './remote-party.ts';
import { nameResolver } from './resolve-names.ts';
import { Turns } from './turns.ts';
import { type UnreachableReason, unreachableReason } from './unreachable-reason.ts';

/** A host that does not take a connection in this time is as good as dead; a payer is waiting. */
const CONNECT_TIMEOUT_MS = 5_000;

/** A mint asks its Lightning node before it answers, which takes seconds on a bad day. */
const HEADERS_TIMEOUT_MS = 12_000;

/** From the call to the last byte, waiting for a free connection included: payers give up by then. */
const TOTAL_TIMEOUT_MS = 15_000;

/** A batch check of 1000 quotes with long invoices is about 2 MB. */
const MAX_BODY_BYTES = 4 * 1024 * 1024;

/** Sixteen of the largest answers, of whichever hosts; a small machine has several times as much. */
const MAX_BYTES_HELD = 16 * MAX_BODY_BYTES;

/** Node's own default for servers: no honest answer has more. */
const MAX_HEADER_BYTES = 16 * 1024;

/**
 * Enough that one slow answer holds up nobody, and few enough not to trouble a small mint: of one that takes
 * 300 ms, as honest ones may, 50 invoices a second. So many requests run at a time to one host, whatever its
 * ports, and an origin has no more connections; idle ones to other ports of the host come on top.
 */
const MAX_CONNECTIONS_PER_HOST = 16;

/** Running and waiting together; beyond it a slow host would only collect requests that time out. */
const MAX_IN_FLIGHT_PER_HOST = 128;

/** Each is a file descriptor and some tens of kB at worst; hundreds of mints get their share of it. */
const MAX_IN_FLIGHT = 1024;

/** An idle connection is kept as long, whatever the host asks for: each is a file descriptor. */
const KEEP_IDLE_MS = 4_000;

/** Some hosts turn away requests that name no program. */
const USER_AGENT = 'nutpost';

/** Bounds that tests shorten; production takes the constants above. */
export interface FetchLimits extends InFlightLimits {
  connectTimeoutMs: number;
  headersTimeoutMs: number;
  totalTimeoutMs: number;
  /** Of one answer; a request may set less. */
  maxBodyBytes: number;
  /** Of all answers that are still coming. */
  maxBytesHeld: number;
}

/** A request to a remote party that nobody vouches for. */
export interface GuardedRequest {
  url: string;
  method: 'GET' | 'POST';
  /** Sent as JSON. */
  body?: unknown;
  /**
   * No honest answer is longer: a long one costs its receiver time, about 100 ms for a MB of JSON at
   * its worst, in which nobody else is served.
   */
  maxBodyBytes?: number;
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
 * HTTP to hosts that strangers name: only https to public ports of public addresses, judged at each
 * connection; no redirect, no proxy from the environment, no compression, and a bound on size, time
 * and concurrency.
 */
export class GuardedFetch {
  readonly #allowPrivateNetworks: boolean;
  readonly #limits: Pick<FetchLimits, 'totalTimeoutMs' | 'maxBodyBytes'>;
  readonly #agent: Agent;
  readonly #answerGuard: AnswerGuard;
  readonly #trustedOrigins: ReadonlySet<string>;
  readonly #inFlight: InFlight;
  readonly #turns = new Turns(MAX_CONNECTIONS_PER_HOST);

  /**
   * @param options.allowPrivateNetworks opens http, any port and private addresses, for development
   * @param options.trustedOrigins those that the operator has named, under the same guard: requests to
   *   strangers, other ports of the same host included, take none of their places and connections
   * @param options.resolve finds the addresses that are judged
   */
  constructor(options: {
    allowPrivateNetworks: boolean;
    trustedOrigins?: readonly string[];
    limits?: Partial<FetchLimits>;
    resolve?: ResolveAll;
  }) {
    const limits = { ...USUAL_LIMITS, ...options.limits };
    this.#allowPrivateNetworks = options.allowPrivateNetworks;
    this.#limits = limits;
    this.#answerGuard = new AnswerGuard(limits.maxBytesHeld);
    this.#trustedOrigins = new Set(options.trustedOrigins);
    this.#inFlight = new InFlight(limits, this.#trustedOrigins);
    const connect = {
      timeout: limits.connectTimeoutMs,
      // HTTP/1.1 alone, so that the bounds on headers and body are those of one parser.
      allowH2: false,
      // Where it is not said, the environment can turn the checks off (NODE_TLS_REJECT_UNAUTHORIZED).
      rejectUnauthorized: true,
    };
    this.#agent = new Agent({
      connect: options.allowPrivateNetworks
        ? buildConnector(connect)
        : guardedConnector(connect, options.resolve ?? nameResolver()),
      connections: MAX_CONNECTIONS_PER_HOST,
      pipelining: 1,
      keepAliveTimeout: KEEP_IDLE_MS,
      keepAliveMaxTimeout: KEEP_IDLE_MS,
      headersTimeout: limits.headersTimeoutMs,
      bodyTimeout: limits.totalTimeoutMs,
      maxHeaderSize: MAX_HEADER_BYTES,
    });
  }

  /**
   * Sends one request. Never throws for anything that the remote party does.
   *
   * @throws TypeError where the url is none, or the body cannot be put in JSON
   */
  async request(request: GuardedRequest): Promise<GuardedAnswer> {
    const url = new URL(request.url);
    const body = request.body === undefined ? null : JSON.stringify(request.body);
    const party = this.#partyOf(url);
    const refusal = this.#refusalOf(url, party);
    if (refusal !== null) {
      return { outcome: 'unreachable', reason: refusal, isUnsent: true };
    }
    const maxBodyBytes = Math.min(request.maxBodyBytes ?? Infinity, this.#limits.maxBodyBytes);
    const coming = new ComingAnswer(this.#answerGuard, maxBodyBytes);
    let answer: GuardedAnswer;
    try {
      answer = await this.#inTurn(party, coming, () =>
        this.#send({ method: request.method, url, body }, coming),
      );
    } catch (error) {
      const reason = unreachableReason(error);
      answer = { outcome: 'unreachable', reason, ...(!coming.isBegun && { isUnsent: true }) };
    }
    this.#inFlight.leave(party, answer.outcome === 'answered');
    return answer;
  }

  /** Ends every connection at once; requests that are still running are answered `closed`. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  /** Whose places a request takes: a trusted origin has its own, whatever strangers do to its host. */
  #partyOf(url: URL): string {
    return this.#trustedOrigins.has(url.origin)
      ? url.origin
      : remoteParty(url, { allowPrivateNetworks: this.#allowPrivateNetworks });
  }

  /** Why a request is not sent at all; null where it is, and has taken its place. */
  #refusalOf(url: URL, party: string): UnreachableReason | null {
    if (!this.#allowPrivateNetworks && url.protocol !== 'https:') {
      return 'https required';
    }
    if (!this.#allowPrivateNetworks && !isPublicPort(url)) {
      return 'forbidden port';
    }
    return this.#inFlight.enter(party) ? null : 'too many requests in flight';
  }

  /** Waiting for the turn is part of the time that a request has. */
  async #inTurn<T>(party: string, coming: ComingAnswer, work: () => Promise<T>): Promise<T> {
    const turn = this.#turns.take(party);
    const timer = setTimeout(() => {
      const late = new DOMException('the time for an answer is over', 'TimeoutError');
      turn?.giveUp(late);
      coming.giveUp(late);
    }, this.#limits.totalTimeoutMs).unref();
    try {
      if (turn !== null) {
        await turn.begins;
      }
      try {
        return await work();
      } finally {
        this.#turns.giveBack(party);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  async #send(
    request: {
      method: GuardedRequest['method'];
      url: URL;
      /** JSON; null for none. */
      body: string | null;
    },
    coming: ComingAnswer,
  ): Promise<GuardedAnswer> {
    const { method, body } = request;
    const { origin, pathname, search } = request.url;
    const headers = body === null ? HEADERS : HEADERS_WITH_BODY;
    this.#agent.dispatch({ origin, path: pathname + search, method, headers, body }, coming);
    const answer = await coming.whole;
    return {
      outcome: 'answered',
      status: answer.status,
      headers: singleHeaders(answer.headers),
      text: answer.text,
    };
  }
}

const HEADERS = {
  accept: 'application/json',
  'accept-encoding': 'identity',
  'user-agent': USER_AGENT,
};
const HEADERS_WITH_BODY = { ...HEADERS, 'content-type': 'application/json' };

const USUAL_LIMITS: FetchLimits = {
  connectTimeoutMs: CONNECT_TIMEOUT_MS,
  headersTimeoutMs: HEADERS_TIMEOUT_MS,
  totalTimeoutMs: TOTAL_TIMEOUT_MS,
  maxBodyBytes: MAX_BODY_BYTES,
  maxBytesHeld: MAX_BYTES_HELD,
  maxInFlight: MAX_IN_FLIGHT,
  maxInFlightPerParty: MAX_IN_FLIGHT_PER_HOST,
};

function guardedConnector(
  options: buildConnector.BuildOptions,
  resolve: ResolveAll,
): buildConnector.connector {
  const connect = buildConnector({ ...options, lookup: guardedLookup(resolve) });
  return (options, callback) => {
    if (isForbiddenHost(options.hostname)) {
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
