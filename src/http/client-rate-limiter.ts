import type { FastifyRequest, onRequestHookHandler } from 'fastify';
import { rateLimitError } from '../errors.ts';
import { type CountedKey, FixedWindowRateLimiter } from '../fixed-window-rate-limiter.ts';
import { toAddressPrefixes } from '../net/address-prefixes.ts';
import { MAX_COUNTED_KEYS, MAX_COUNTED_PREFIXES, ROUTE_LIMITS } from './limits.ts';

/** Limits per process, each per address and per public key. 0 means no limit. */
export interface ClientLimits {
  requestsPerMinute: number;
  /** Each change causes a request to a mint. */
  settingChangesPerMinute: number;
  /** Each purchase causes a swap at the mint. */
  usernamePurchasesPerMinute: number;
  maxSockets: number;
  maxSocketsPerAddress: number;
  socketMessagesPerSecond: number;
}

const MESSAGES = {
  requests: 'Too many requests',
  changes: 'Too many changes',
  purchases: 'Too many requests for usernames',
  documents: 'Too many requests for documents',
  names: 'Too many name lookups',
  lookups: 'Too many quote lookups',
  pages: 'Too many requests for pages',
};

type RateLimitCategory = keyof typeof MESSAGES;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** An additional limit for an expensive route. */
    rateLimitCategory?: RateLimitCategory;
    isRateLimitExempt?: true;
  }
}

type Limiters = Record<RateLimitCategory, FixedWindowRateLimiter>;

/** Limits by address before anything is parsed, and by key after authentication, so that no client uses another’s. */
export class ClientRateLimiter {
  readonly #byAddress: Limiters;
  readonly #byPubkey: Limiters;

  constructor(limits: ClientLimits, monotonicMs: () => number) {
    const create = (perMinute: number, maxKeys = MAX_COUNTED_KEYS) =>
      new FixedWindowRateLimiter(perMinute, maxKeys, monotonicMs);
    const createAll = (maxKeys: number): Limiters => ({
      requests: create(limits.requestsPerMinute, maxKeys),
      changes: create(limits.settingChangesPerMinute),
      purchases: create(limits.usernamePurchasesPerMinute),
      documents: create(ROUTE_LIMITS.documents),
      names: create(ROUTE_LIMITS.names),
      lookups: create(ROUTE_LIMITS.lookups),
      pages: create(ROUTE_LIMITS.pages),
    });
    this.#byAddress = createAll(MAX_COUNTED_PREFIXES);
    this.#byPubkey = createAll(MAX_COUNTED_KEYS);
  }

  /** Hook for all requests. Never rejects CORS preflights, because a web page cannot read the response. */
  readonly limitByAddress: onRequestHookHandler = (request, _reply, done) => {
    const prefixes = toAddressPrefixes(request.ip);
    if (request.method === 'OPTIONS') {
      this.#byAddress.requests.consume(prefixes);
    } else if (request.routeOptions.config.isRateLimitExempt !== true) {
      enforceLimits(this.#byAddress, request, prefixes, 'from this address');
    }
    done();
  };

  readonly limitByPubkey: onRequestHookHandler = (request, _reply, done) => {
    enforceLimits(this.#byPubkey, request, [{ key: request.pubkey, factor: 1 }], 'with this key');
    done();
  };
}

function enforceLimits(
  limiters: Limiters,
  { routeOptions }: FastifyRequest,
  keys: readonly CountedKey[],
  suffix: string,
): void {
  const { rateLimitCategory = 'requests' } = routeOptions.config;
  for (const category of new Set<RateLimitCategory>(['requests', rateLimitCategory])) {
    const retryAfterMs = limiters[category].consume(keys);
    if (retryAfterMs !== null) {
      throw rateLimitError(`${MESSAGES[category]} ${suffix}.`, retryAfterMs);
    }
  }
}
