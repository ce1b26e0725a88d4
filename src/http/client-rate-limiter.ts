import { isIPv4 } from 'node:net';
import type { FastifyRequest, onRequestHookHandler } from 'fastify';
import ipaddr from 'ipaddr.js';
import { rateLimitError } from '../errors.ts';
import { FixedWindowRateLimiter } from '../fixed-window-rate-limiter.ts';
import type { InvoiceLimits } from '../quotes/invoice-admission.ts';

/** Limits per process. 0 means no limit. An address is an address group here (see {@link toAddressGroup}). */
export interface ClientLimits extends InvoiceLimits {
  /** Per address and per public key. Includes all requests. */
  requestsPerMinute: number;
  /** Per address and per public key. Each change causes a request to a mint. */
  settingChangesPerMinute: number;
  /** Per address and per public key. Each purchase causes a swap at the mint. */
  usernamePurchasesPerMinute: number;
  /** Concurrent quote sockets. */
  maxSockets: number;
  maxSocketsPerAddress: number;
  maxSocketsPerPubkey: number;
  socketMessagesPerSecond: number;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** An additional limit for an expensive route. */
    rateLimitCategory?: RateLimitCategory;
    isRateLimitExempt?: true;
  }
}

type RateLimitCategory =
  | 'requests'
  | 'changes'
  | 'purchases'
  | 'documents'
  | 'names'
  | 'lookups'
  | 'pages';

/** Twice the address groups of an IPv6 /48, so that the owner of a /48 cannot evict the counts of all others. */
const MAX_COUNTED_ADDRESS_GROUPS = 2 * 65_536;

/** The addresses or public keys that every other limit counts. */
const DEFAULT_MAX_COUNTED_KEYS = 20_000;

/** Per address. A response has up to half a megabyte, and the page `/docs` needs seven of them. */
const MAX_DOCS_REQUESTS_PER_MINUTE = 60;

/** Per address. Enough for several people who type at once, and too few to look up long lists of names. */
const MAX_NAME_LOOKUPS_PER_MINUTE = 120;

/** Per address and per public key. A response has up to 1,000 quotes, twenty times as many as a page of the list. */
const MAX_QUOTE_LOOKUPS_PER_MINUTE = 60;

/** Per address. A page with a QR code takes about 2 ms, and a person opens one every few seconds. */
const MAX_PAGES_PER_MINUTE = 600;

const RATE_LIMIT_MESSAGES: Record<RateLimitCategory, string> = {
  requests: 'Too many requests',
  changes: 'Too many changes',
  purchases: 'Too many requests for usernames',
  documents: 'Too many requests for documents',
  names: 'Too many name lookups',
  lookups: 'Too many quote lookups',
  pages: 'Too many requests for pages',
};

/**
 * Limits requests by address before anything is parsed, and by public key after authentication. No client can use up
 * the limit of another client's key. Each process counts its own requests.
 */
export class ClientRateLimiter {
  readonly #limitersByAddress: Record<RateLimitCategory, FixedWindowRateLimiter>;
  readonly #limitersByPubkey: Record<RateLimitCategory, FixedWindowRateLimiter>;

  constructor(limits: ClientLimits, monotonicMs: () => number) {
    const createLimiter = (perMinute: number, maxKeys = DEFAULT_MAX_COUNTED_KEYS) =>
      new FixedWindowRateLimiter(perMinute, maxKeys, monotonicMs);
    const createLimiters = (maxRequestKeys: number) => ({
      requests: createLimiter(limits.requestsPerMinute, maxRequestKeys),
      changes: createLimiter(limits.settingChangesPerMinute),
      purchases: createLimiter(limits.usernamePurchasesPerMinute),
      documents: createLimiter(MAX_DOCS_REQUESTS_PER_MINUTE),
      names: createLimiter(MAX_NAME_LOOKUPS_PER_MINUTE),
      lookups: createLimiter(MAX_QUOTE_LOOKUPS_PER_MINUTE),
      pages: createLimiter(MAX_PAGES_PER_MINUTE),
    });
    this.#limitersByAddress = createLimiters(MAX_COUNTED_ADDRESS_GROUPS);
    this.#limitersByPubkey = createLimiters(DEFAULT_MAX_COUNTED_KEYS);
  }

  /** Hook for all requests. Never rejects CORS preflights, because a web page cannot read the response. */
  readonly limitByAddress: onRequestHookHandler = (request, _reply, done) => {
    const addressGroup = toAddressGroup(request.ip);
    if (request.method === 'OPTIONS') {
      this.#limitersByAddress.requests.consume(addressGroup);
    } else if (request.routeOptions.config.isRateLimitExempt !== true) {
      enforceLimits(this.#limitersByAddress, request, addressGroup, 'from this address');
    }
    done();
  };

  readonly limitByPubkey: onRequestHookHandler = (request, _reply, done) => {
    enforceLimits(this.#limitersByPubkey, request, request.pubkey, 'with this key');
    done();
  };
}

function enforceLimits(
  limiters: Record<RateLimitCategory, FixedWindowRateLimiter>,
  { routeOptions }: FastifyRequest,
  key: string,
  suffix: string,
): void {
  const { rateLimitCategory } = routeOptions.config;
  const categories: RateLimitCategory[] =
    rateLimitCategory === undefined ? ['requests'] : ['requests', rateLimitCategory];
  for (const category of categories) {
    const retryAfterMs = limiters[category].consume(key);
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
 * Returns the address group of a client, in at most 24 characters. The group is the IPv4 address (even if it is
 * mapped to IPv6), the /64 network of an IPv6 address, or `unknown` (RFC 7239) for other text.
 *
 * @param address from a socket or a trusted proxy; empty if the socket is closed
 */
export function toAddressGroup(address = ''): string {
  // Most addresses need no parsing.
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
