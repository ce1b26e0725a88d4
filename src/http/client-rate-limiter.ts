import type { FastifyRequest, onRequestHookHandler } from 'fastify';
import { rateLimitError } from '../errors.ts';
import { type CountedKey, FixedWindowRateLimiter } from '../fixed-window-rate-limiter.ts';
import { toAddressPrefixes } from '../net/address-prefixes.ts';
import type { InvoiceLimits } from '../quotes/invoice-admission.ts';

/** Limits per process. 0 means no limit. For the prefixes of an address, multiples apply ({@link toAddressPrefixes}). */
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

/** For all requests. The owner of an IPv6 /32 needs 27 s to evict as many, and only prefixes that send no requests. */
const MAX_COUNTED_PREFIXES = 131_072;

/** The prefixes or public keys that every other limit counts. */
const DEFAULT_MAX_COUNTED_KEYS = 20_000;

/** Per address. A response has up to half a megabyte, and the page `/docs` needs seven of them. */
const MAX_DOCS_REQUESTS_PER_MINUTE = 60;

/** Per address. Enough for several people who type at once, and too few to look up long lists of names. */
const MAX_NAME_LOOKUPS_PER_MINUTE = 120;

/** Per address and per public key. A response has up to 1,000 quotes, twenty times as many as a page of the list. */
const MAX_QUOTE_LOOKUPS_PER_MINUTE = 60;

/**
 * Per address. Enough for a room of people behind one address who scan the same QR code; their wallets open no pages.
 * A client that requests all of them in one packet occupies the event loop for about 130 ms.
 */
const MAX_PAGES_PER_MINUTE = 120;

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
    this.#limitersByAddress = createLimiters(MAX_COUNTED_PREFIXES);
    this.#limitersByPubkey = createLimiters(DEFAULT_MAX_COUNTED_KEYS);
  }

  /** Hook for all requests. Never rejects CORS preflights, because a web page cannot read the response. */
  readonly limitByAddress: onRequestHookHandler = (request, _reply, done) => {
    const prefixes = toAddressPrefixes(request.ip);
    if (request.method === 'OPTIONS') {
      this.#limitersByAddress.requests.consume(prefixes);
    } else if (request.routeOptions.config.isRateLimitExempt !== true) {
      enforceLimits(this.#limitersByAddress, request, prefixes, 'from this address');
    }
    done();
  };

  readonly limitByPubkey: onRequestHookHandler = (request, _reply, done) => {
    const keys = [{ key: request.pubkey, factor: 1 }];
    enforceLimits(this.#limitersByPubkey, request, keys, 'with this key');
    done();
  };
}

function enforceLimits(
  limiters: Record<RateLimitCategory, FixedWindowRateLimiter>,
  { routeOptions }: FastifyRequest,
  keys: readonly CountedKey[],
  suffix: string,
): void {
  const { rateLimitCategory } = routeOptions.config;
  const categories: RateLimitCategory[] =
    rateLimitCategory === undefined ? ['requests'] : ['requests', rateLimitCategory];
  for (const category of categories) {
    const retryAfterMs = limiters[category].consume(keys);
    if (retryAfterMs !== null) {
      throw rateLimitError(`${RATE_LIMIT_MESSAGES[category]} ${suffix}.`, retryAfterMs);
    }
  }
}
