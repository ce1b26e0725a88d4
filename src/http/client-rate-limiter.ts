import { isIPv4 } from 'node:net';
import type { FastifyRequest, onRequestHookHandler } from 'fastify';
import ipaddr from 'ipaddr.js';
import { rateLimitError } from '../errors.ts';
import { FixedWindowCounter } from '../keyed-counters.ts';
import type { InvoiceLimits } from '../quotes/invoice-admission.ts';

/** Limits per process; 0: no limit. "Address" means an address group ({@link toAddressGroup}), "key" the public key. */
export interface ClientLimits extends InvoiceLimits {
  /** All requests, per address and per key. */
  requestsPerMinute: number;
  /** Per address and per key. Each change causes a request to a mint. */
  settingChangesPerMinute: number;
  /** Per address and per key. Each purchase causes a swap at the mint. */
  usernamePurchasesPerMinute: number;
  /** Concurrent quote sockets. */
  maxSockets: number;
  maxSocketsPerAddress: number;
  maxSocketsPerPubkey: number;
  socketMessagesPerSecond: number;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The additional limit of an expensive route. */
    rateLimitCategory?: RateLimitCategory;
    isRateLimitExempt?: true;
  }
}

type RateLimitCategory = 'requests' | 'changes' | 'purchases' | 'documents';

/** Twice the address groups of an IPv6 /48, so that the owner of one cannot evict the counts of other clients. */
const MAX_COUNTED_ADDRESS_GROUPS = 2 * 65_536;

/** Addresses or keys of any other limit. */
const DEFAULT_MAX_COUNTED_KEYS = 20_000;

/** Per address. These responses have up to half a megabyte; `/docs` loads seven of them. */
const MAX_DOCS_REQUESTS_PER_MINUTE = 60;

const RATE_LIMIT_MESSAGES: Record<RateLimitCategory, string> = {
  requests: 'Too many requests',
  changes: 'Too many changes',
  purchases: 'Too many requests for usernames',
  documents: 'Too many requests for documents',
};

/**
 * Limits requests by address, before anything is parsed, and by key after authentication, so that no client can use up
 * the limit of another client's key. Each process counts its own requests.
 */
export class ClientRateLimiter {
  readonly #byAddress: Record<RateLimitCategory, FixedWindowCounter>;
  readonly #byPubkey: Record<RateLimitCategory, FixedWindowCounter>;

  constructor(limits: ClientLimits, monotonicMs: () => number) {
    const counter = (perMinute: number, maxKeys = DEFAULT_MAX_COUNTED_KEYS) =>
      new FixedWindowCounter(perMinute === 0 ? Infinity : perMinute, maxKeys, monotonicMs);
    const counters = (maxRequestKeys: number) => ({
      requests: counter(limits.requestsPerMinute, maxRequestKeys),
      changes: counter(limits.settingChangesPerMinute),
      purchases: counter(limits.usernamePurchasesPerMinute),
      documents: counter(MAX_DOCS_REQUESTS_PER_MINUTE),
    });
    this.#byAddress = counters(MAX_COUNTED_ADDRESS_GROUPS);
    this.#byPubkey = counters(DEFAULT_MAX_COUNTED_KEYS);
  }

  /** Hook for all requests. Preflights count but are never rejected, because a web page cannot read that response. */
  readonly limitByAddress: onRequestHookHandler = (request, _reply, done) => {
    const addressGroup = toAddressGroup(request.ip);
    if (request.method === 'OPTIONS') {
      this.#byAddress.requests.consume(addressGroup);
    } else if (request.routeOptions.config.isRateLimitExempt !== true) {
      enforceLimits(this.#byAddress, request, addressGroup, 'from this address');
    }
    done();
  };

  readonly limitByPubkey: onRequestHookHandler = (request, _reply, done) => {
    enforceLimits(this.#byPubkey, request, request.pubkey, 'with this key');
    done();
  };
}

function enforceLimits(
  counters: Record<RateLimitCategory, FixedWindowCounter>,
  { routeOptions }: FastifyRequest,
  key: string,
  suffix: string,
): void {
  const { rateLimitCategory } = routeOptions.config;
  const categories: RateLimitCategory[] =
    rateLimitCategory === undefined ? ['requests'] : ['requests', rateLimitCategory];
  for (const category of categories) {
    const retryAfterMs = counters[category].consume(key);
    if (retryAfterMs !== null) {
      throw rateLimitError(`${RATE_LIMIT_MESSAGES[category]} ${suffix}.`, retryAfterMs);
    }
  }
}

/** The 16-bit parts of a /64, the smallest block that a provider assigns to a customer (RFC 6177). */
const IPV6_PREFIX_HEXTETS = 4;

/** Some proxies append the client's port: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
const ADDRESS_WITH_PORT = /^(?:\[([^[\]]+)\]|([\d.]+))(?::\d{1,5})?$/;

/**
 * Returns the address group that a client counts for: an IPv4 address (also if mapped to IPv6), the /64 of an IPv6
 * address, or `unknown` (RFC 7239) if it is not an address. At most 24 characters.
 *
 * @param address from a socket or a trusted proxy; a closed socket has none
 */
export function toAddressGroup(address = ''): string {
  // Most addresses; parsing them would take a tenth of a cached address lookup.
  if (isIPv4(address)) {
    return address;
  }
  const [, inBrackets, beforePort] = ADDRESS_WITH_PORT.exec(address) ?? [];
  const bare = inBrackets ?? beforePort ?? address;
  if (!ipaddr.isValid(bare)) {
    return 'unknown';
  }
  const parsed = ipaddr.process(bare);
  if (parsed instanceof ipaddr.IPv4) {
    return parsed.toString();
  }
  const prefix = parsed.parts.slice(0, IPV6_PREFIX_HEXTETS);
  return `${prefix.map((part) => part.toString(16)).join(':')}::/${16 * IPV6_PREFIX_HEXTETS}`;
}
