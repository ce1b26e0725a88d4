import type { InvoiceLimits } from '../quotes/invoice-admission.ts';
import { isIPv4 } from 'node:net';
import type { onRequestHookHandler } from 'fastify';
import ipaddr from 'ipaddr.js';
import { tooMany } from '../errors.ts';
import { FixedWindowCounter } from '../keyed-counters.ts';

/** What one process grants to clients; 0: no limit. An address is an IPv4 address or the /64 of an IPv6 one. */
export interface InboundLimits extends InvoiceLimits {
  /** Requests of any kind a minute, by address; and by key, where a request is signed. */
  requests: number;
  /** Changes of settings a minute, by address and by key: a mint is asked for each. */
  changes: number;
  /** Requests to buy a username a minute, by address and by key: a mint swaps for each. */
  purchases: number;
  /** Quote sockets at a time: in all, by address and by key. */
  sockets: number;
  socketsPerAddress: number;
  socketsPerKey: number;
  /** Messages a second from one socket. */
  socketMessages: number;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    countedAs?: CostlyKind;
    /** Exempts the route from the limits. */
    isUnlimited?: true;
  }
}

/** Requests with limits of their own: they cost a mint, or hold a connection for long. */
type CostlyKind = 'changes' | 'purchases' | 'documents';

type Kind = 'requests' | CostlyKind;

/** Null: no limit. */
type Counters = Record<Kind, FixedWindowCounter | null>;

/**
 * Addresses whose requests are counted: twice the 65,536 address groups of an IPv6 /48, so that the owner of one cannot
 * make the service drop the counts of other clients.
 */
const MAX_ADDRESSES = 2 * 65_536;

/** Addresses or keys of each other limit. */
const MAX_OTHERS = 20_000;

/**
 * Requests per address for the API's description and the files of `/docs`. They are as long as half a megabyte, and hold
 * their connection until the client has read them. The page loads seven, once a day.
 */
const MAX_DOCUMENTS_PER_MINUTE = 60;

const TOO_MANY: Record<Kind, string> = {
  requests: 'Too many requests',
  changes: 'Too many changes',
  purchases: 'Too many requests for usernames',
  documents: 'Too many requests for documents',
};

/**
 * Limits the requests of clients: by address before anything is read or checked, and by key once a signature or token
 * proves it, so that no client can use up the limit of another client's key. Each process counts its own requests.
 */
export class RateLimits {
  readonly #byAddress: Counters;
  readonly #byKey: Counters;

  constructor(limits: InboundLimits, monotonicMs: () => number) {
    /** @param perMinute 0: no limit */
    const counter = (perMinute: number, maxKeys = MAX_OTHERS) =>
      perMinute === 0 ? null : new FixedWindowCounter(perMinute, maxKeys, monotonicMs);
    const counters = (maxRequesters: number): Counters => ({
      requests: counter(limits.requests, maxRequesters),
      changes: counter(limits.changes),
      purchases: counter(limits.purchases),
      documents: counter(MAX_DOCUMENTS_PER_MINUTE),
    });
    this.#byAddress = counters(MAX_ADDRESSES);
    this.#byKey = counters(MAX_OTHERS);
  }

  /**
   * Hook: rejects an address with too many requests. A preflight counts but is never rejected, because a web page
   * cannot read that response; it can read the response to the request that follows.
   */
  readonly limitAddress: onRequestHookHandler = (request, _reply, done) => {
    const address = clientNetwork(request.ip);
    const { config } = request.routeOptions;
    if (request.method === 'OPTIONS') {
      this.#byAddress.requests?.count(address);
    } else if (config.isUnlimited !== true) {
      count(this.#byAddress, config.countedAs, address, 'from this address');
    }
    done();
  };

  /** Hook, for after authentication: rejects a key with too many requests. */
  readonly limitKey: onRequestHookHandler = (request, _reply, done) => {
    const { countedAs } = request.routeOptions.config;
    count(this.#byKey, countedAs, request.pubkey, 'with this key');
    done();
  };
}

function count(
  counters: Counters,
  countedAs: CostlyKind | undefined,
  requester: string,
  suffix: string,
): void {
  const kinds: Kind[] = countedAs === undefined ? ['requests'] : ['requests', countedAs];
  for (const kind of kinds) {
    const waitMs = counters[kind]?.count(requester) ?? null;
    if (waitMs !== null) {
      throw tooMany(`${TOO_MANY[kind]} ${suffix}.`, waitMs);
    }
  }
}

/** A /64 in 16-bit parts: the smallest block that a provider gives to one customer (RFC 6177). */
const IPV6_NETWORK_PARTS = 4;

/** Some proxies write a client's port too: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
const WITH_PORT = /^(?:\[([^[\]]+)\]|([\d.]+))(?::\d{1,5})?$/;

/**
 * Returns the client that requests from an address count for: an IPv4 address itself, also if it is written as IPv6,
 * and the /64 of an IPv6 address.
 *
 * @param address of a socket, or as a trusted proxy writes it; a closed socket has none
 * @returns at most 24 characters; `unknown` (RFC 7239) for anything that is not an address
 */
export function clientNetwork(address = ''): string {
  if (isIPv4(address)) {
    return address;
  }
  const [, inBrackets, beforePort] = WITH_PORT.exec(address) ?? [];
  const bare = inBrackets ?? beforePort ?? address;
  if (!ipaddr.isValid(bare)) {
    return 'unknown';
  }
  const parsed = ipaddr.process(bare);
  if (parsed instanceof ipaddr.IPv4) {
    return parsed.toString();
  }
  const network = parsed.parts.slice(0, IPV6_NETWORK_PARTS);
  return `${network.map((part) => part.toString(16)).join(':')}::/${16 * IPV6_NETWORK_PARTS}`;
}
