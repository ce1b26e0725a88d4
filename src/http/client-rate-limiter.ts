import type { FastifyRequest, onRequestHookHandler } from 'fastify';
import { type RequestError, rateLimitError } from '../errors.ts';
import { type CountedKey, FixedWindowRateLimiter } from '../fixed-window-rate-limiter.ts';
import { toAddressPrefixes } from '../net/address-prefixes.ts';
import {
  MAX_COUNTED_KEYS,
  MAX_COUNTED_PREFIXES,
  NOTIFICATION_CHANGE_COST,
  ROUTE_REQUESTS_PER_MINUTE,
} from './limits.ts';

/** Limits per process. Those per minute apply to each address and to each public key. 0 means no limit. */
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

const REJECTIONS = {
  requests: 'Too many requests',
  settingChanges: 'Too many changes',
  notificationChanges: 'Too many changes of notifications',
  usernamePurchases: 'Too many requests for usernames',
  documents: 'Too many requests for documents',
  nameLookups: 'Too many name lookups',
  quoteLookups: 'Too many quote lookups',
  pages: 'Too many requests for pages',
};

type RateLimitCategory = keyof typeof REJECTIONS;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Selects a second limit, which an expensive route has in addition to the limit on all requests. */
    rateLimitCategory?: RateLimitCategory;
    isRateLimitExempt?: true;
    /** The handler reports `rejection` itself, in a form that keeps what was entered. */
    handlesRateLimit?: true;
  }
  interface FastifyRequest {
    /** The error if the client's address is over a limit; otherwise null. */
    rejection: RequestError | null;
  }
}

type Limiters = Record<RateLimitCategory, FixedWindowRateLimiter>;

/** Counts requests by address before their bodies are read, and by public key after its owner has authenticated. */
export function createRateLimitHooks(limits: ClientLimits, monotonicMs: () => number) {
  const createLimiter = (maxPerMinute: number, maxKeys = MAX_COUNTED_KEYS) =>
    new FixedWindowRateLimiter(maxPerMinute, maxKeys, monotonicMs);
  const createLimiters = (maxRequestKeys: number): Limiters => ({
    requests: createLimiter(limits.requestsPerMinute, maxRequestKeys),
    settingChanges: createLimiter(limits.settingChangesPerMinute),
    notificationChanges: createLimiter(
      Math.ceil(limits.settingChangesPerMinute / NOTIFICATION_CHANGE_COST),
    ),
    usernamePurchases: createLimiter(limits.usernamePurchasesPerMinute),
    documents: createLimiter(ROUTE_REQUESTS_PER_MINUTE.documents),
    nameLookups: createLimiter(ROUTE_REQUESTS_PER_MINUTE.nameLookups),
    quoteLookups: createLimiter(ROUTE_REQUESTS_PER_MINUTE.quoteLookups),
    pages: createLimiter(ROUTE_REQUESTS_PER_MINUTE.pages),
  });
  const byAddress = createLimiters(MAX_COUNTED_PREFIXES);
  const byPubkey = createLimiters(MAX_COUNTED_KEYS);

  const limitByAddress: onRequestHookHandler = (request, _reply, done) => {
    const { config } = request.routeOptions;
    const prefixes = toAddressPrefixes(request.ip);
    if (request.method === 'OPTIONS') {
      // CORS preflights are counted but never rejected, because a web page could not read the error.
      byAddress.requests.consume(prefixes);
    } else if (config.isRateLimitExempt !== true) {
      request.rejection = findRejection(byAddress, request, prefixes, 'from your IP address');
    }
    done(config.handlesRateLimit === true ? undefined : (request.rejection ?? undefined));
  };

  const limitByPubkey: onRequestHookHandler = (request, _reply, done) => {
    const keys = [{ key: request.pubkey, factor: 1 }];
    done(findRejection(byPubkey, request, keys, 'with this key') ?? undefined);
  };

  return { limitByAddress, limitByPubkey };
}

function findRejection(
  limiters: Limiters,
  { routeOptions }: FastifyRequest,
  keys: readonly CountedKey[],
  suffix: string,
): RequestError | null {
  const { rateLimitCategory = 'requests' } = routeOptions.config;
  for (const category of new Set<RateLimitCategory>(['requests', rateLimitCategory])) {
    const retryAfterMs = limiters[category].consume(keys);
    if (retryAfterMs !== null) {
      return rateLimitError(`${REJECTIONS[category]} ${suffix}.`, retryAfterMs);
    }
  }
  return null;
}
