import type { RateLimitOptions } from '@fastify/rate-limit';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { clientNetwork } from '../domain/client-network.ts';
import { tooMany } from '../domain/errors.ts';
import type { InboundLimits } from '../domain/limits.ts';
import { MAX_DOCUMENTS_PER_MINUTE } from './limits.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What a request for this route is, beside a request; null: nothing else. */
    countedAs?: CostlyKind | ((request: FastifyRequest) => CostlyKind | null);
    /** Whether its requests are not counted before the route has them; absent: they are. */
    isUnlimited?: true;
  }
}

/** Requests that cost a mint, or a connection for long, and so have limits of their own. */
type CostlyKind = 'invoices' | 'changes' | 'purchases' | 'documents';

type Kind = 'requests' | CostlyKind;

/** Those that are asked for with a key. */
type KindOfKeys = Exclude<Kind, 'invoices' | 'documents'>;

/** Counts a request. @returns how long it is refused, in milliseconds; null: it is not */
type Counter = (request: FastifyRequest) => Promise<number | null>;

/** All limits are by the minute, which begins with the first request that is counted. */
const WINDOW_MS = 60_000;

/**
 * How many addresses the limit on all requests remembers, the latest ones, with 240 bytes each. It is
 * twice the 65,536 networks of a /48: who has one of those cannot make it forget anybody else. Who has
 * more can, and gains nothing that so many networks do not give anyway: what is forgotten is forgiven,
 * and nobody is refused for it.
 */
const MAX_ADDRESSES = 2 * 65_536;

/** The same for each of the other limits, of addresses and of keys: together about as much memory. */
const MAX_OTHERS = 20_000;

const TOO_MANY: Record<Kind, string> = {
  requests: 'Too many requests',
  invoices: 'Too many requests for invoices',
  changes: 'Too many changes',
  purchases: 'Too many requests for usernames',
  documents: 'Too many requests for documents',
};

/**
 * How often strangers may ask: by address before anything is read or checked, and by key once a
 * signature or token has shown it, so that nobody can use up what another's key may do.
 *
 * Refused requests count too, but they put nothing off: who waits as long as `Retry-After` says is
 * served. The minutes are fixed, so that twice the limit can come around the end of one, and last longer
 * where the clock is set back.
 *
 * Each process counts what it is asked itself: behind a balancer, clients may do as many times more
 * as there are processes, and a restart begins at nothing. What all of them share is in the database.
 */
export class RateLimits {
  readonly #byAddress: Record<Kind, Counter>;
  readonly #byKey: Record<KindOfKeys, Counter>;

  /** @param app with `@fastify/rate-limit` registered */
  constructor(app: FastifyInstance, limits: InboundLimits) {
    const byAddress = (max: number, cache = MAX_OTHERS) =>
      counter(app, { max, cache, keyGenerator: (request) => clientNetwork(request.ip) });
    const byKey = (max: number) =>
      counter(app, { max, cache: MAX_OTHERS, keyGenerator: (request) => request.pubkey });
    this.#byAddress = {
      requests: byAddress(limits.requests, MAX_ADDRESSES),
      invoices: byAddress(limits.invoices),
      changes: byAddress(limits.changes),
      purchases: byAddress(limits.purchases),
      documents: byAddress(MAX_DOCUMENTS_PER_MINUTE),
    };
    this.#byKey = {
      requests: byKey(limits.requests),
      changes: byKey(limits.changes),
      purchases: byKey(limits.purchases),
    };
  }

  /**
   * Hook: a preflight counts and is never refused. It costs less than its refusal would, which a web
   * page could not tell from a broken network; what it asks for gets the answer that can be read.
   */
  readonly countPreflight = async (request: FastifyRequest): Promise<void> => {
    if (request.method === 'OPTIONS') {
      await this.#byAddress.requests(request);
    }
  };

  /** Hook: refuses what an address asks for too often. */
  readonly limitAddress = async (request: FastifyRequest): Promise<void> => {
    if (request.routeOptions.config.isUnlimited !== true) {
      await this.countAddress(request);
    }
  };

  /**
   * Counts a request, for routes that are unlimited to some.
   *
   * @throws Refusal (too_many) where its address asks too often
   */
  readonly countAddress = async (request: FastifyRequest): Promise<void> => {
    const kind = costlyKindOf(request);
    await refuse('requests', 'from this address', this.#byAddress.requests(request));
    if (kind !== null) {
      await refuse(kind, 'from this address', this.#byAddress[kind](request));
    }
  };

  /** Hook, for after authentication: refuses what a key asks for too often. */
  readonly limitKey = async (request: FastifyRequest): Promise<void> => {
    const kind = costlyKindOf(request);
    await refuse('requests', 'with this key', this.#byKey.requests(request));
    if (kind !== null && kind !== 'invoices' && kind !== 'documents') {
      await refuse(kind, 'with this key', this.#byKey[kind](request));
    }
  };
}

/** @throws Refusal (too_many) where the counter says so */
async function refuse(kind: Kind, whose: string, counted: Promise<number | null>): Promise<void> {
  const waitMs = await counted;
  if (waitMs !== null) {
    throw tooMany(`${TOO_MANY[kind]} ${whose}.`, waitMs);
  }
}

function costlyKindOf(request: FastifyRequest): CostlyKind | null {
  const { countedAs } = request.routeOptions.config;
  return typeof countedAs === 'function' ? countedAs(request) : (countedAs ?? null);
}

/** @param counted.max a minute; 0: as many as come */
function counter(
  app: FastifyInstance,
  counted: { max: number } & Pick<RateLimitOptions, 'cache' | 'keyGenerator'>,
): Counter {
  if (counted.max === 0) {
    return async () => null;
  }
  const count = app.createRateLimit({ ...counted, timeWindow: WINDOW_MS });
  return async (request) => {
    const result = await count(request);
    return !result.isAllowed && result.isExceeded ? result.ttl : null;
  };
}
