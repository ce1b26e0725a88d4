import type { FastifyContextConfig, FastifyRequest, onRequestHookHandler } from 'fastify';
import { clientNetwork } from '../domain/client-network.ts';
import type { Clock } from '../domain/clock.ts';
import { tooMany } from '../domain/errors.ts';
import type { InboundLimits } from '../domain/limits.ts';
import { MinuteCounts } from '../domain/minute-counts.ts';
import { MAX_DOCUMENTS_PER_MINUTE } from './limits.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Counts a request for this route towards this limit too. */
    countedAs?: CostlyKind;
    /** Whether its requests are not counted before the route has them; absent: they are. */
    isUnlimited?: true;
  }
}

/** Requests that cost a mint, or a connection for long, and so have limits of their own. */
type CostlyKind = 'changes' | 'purchases' | 'documents';

type Kind = 'requests' | CostlyKind;

/** Those that are asked for with a key. */
type KindOfKeys = Exclude<Kind, 'documents'>;

/** Null: as many as come. */
type Counts = MinuteCounts | null;

/**
 * How many addresses the limit on all requests remembers, the latest ones, with 153 bytes each. It is
 * twice the 65,536 networks of a /48: who has one of those cannot make it forget anybody else. Who has
 * more can, and gains nothing that so many networks do not give anyway: what is forgotten is forgiven,
 * and nobody is refused for it.
 */
const MAX_ADDRESSES = 2 * 65_536;

/** The same for each of the other limits, of addresses and of keys: together about as much memory. */
const MAX_OTHERS = 20_000;

const TOO_MANY: Record<Kind, string> = {
  requests: 'Too many requests',
  changes: 'Too many changes',
  purchases: 'Too many requests for usernames',
  documents: 'Too many requests for documents',
};

/**
 * How often strangers may ask: by address before anything is read or checked, and by key once a
 * signature or token has shown it, so that nobody can use up what another's key may do.
 *
 * Refused requests count too, but they put nothing off: who waits as long as `Retry-After` says is
 * served. The minutes are fixed, so that twice the limit can come around the end of one. A clock that is set
 * back makes nobody wait for longer than a minute.
 *
 * Each process counts what it is asked itself: behind a balancer, clients may do as many times more
 * as there are processes, and a restart begins at nothing. What all of them share is in the database.
 */
export class RateLimits {
  readonly #byAddress: Record<Kind, Counts>;
  readonly #byKey: Record<KindOfKeys, Counts>;
  readonly #clock: Clock;

  constructor(limits: InboundLimits, clock: Clock) {
    this.#byAddress = {
      requests: countsOf(limits.requests, MAX_ADDRESSES),
      changes: countsOf(limits.changes),
      purchases: countsOf(limits.purchases),
      documents: countsOf(MAX_DOCUMENTS_PER_MINUTE),
    };
    this.#byKey = {
      requests: countsOf(limits.requests),
      changes: countsOf(limits.changes),
      purchases: countsOf(limits.purchases),
    };
    this.#clock = clock;
  }

  /**
   * Hook: refuses what an address asks for too often. A preflight counts and is never refused: it costs less
   * than its refusal would, which a web page could not tell from a broken network; what it asks for gets the
   * answer that can be read.
   */
  readonly limitAddress: onRequestHookHandler = (request, _reply, done) => {
    if (request.method === 'OPTIONS') {
      this.#byAddress.requests?.count(clientNetwork(request.ip), this.#clock());
    } else {
      const { config } = request.routeOptions;
      if (config.isUnlimited !== true) {
        this.#countAddress(request, config);
      }
    }
    done();
  };

  /**
   * Counts a request, for routes that are unlimited to some.
   *
   * @throws Refusal (too_many) where its address asks too often
   */
  readonly countAddress = (request: FastifyRequest): void => {
    this.#countAddress(request, request.routeOptions.config);
  };

  /** Hook, for after authentication: refuses what a key asks for too often. */
  readonly limitKey: onRequestHookHandler = (request, _reply, done) => {
    const kind = request.routeOptions.config.countedAs;
    this.#count(this.#byKey, 'requests', request.pubkey, 'with this key');
    if (kind !== undefined && kind !== 'documents') {
      this.#count(this.#byKey, kind, request.pubkey, 'with this key');
    }
    done();
  };

  #countAddress(request: FastifyRequest, config: FastifyContextConfig): void {
    const kind = config.countedAs;
    const network = clientNetwork(request.ip);
    this.#count(this.#byAddress, 'requests', network, 'from this address');
    if (kind !== undefined) {
      this.#count(this.#byAddress, kind, network, 'from this address');
    }
  }

  /** @throws Refusal (too_many) */
  #count<Of extends Kind>(counts: Record<Of, Counts>, kind: Of, key: string, whose: string): void {
    const waitMs = counts[kind]?.count(key, this.#clock()) ?? null;
    if (waitMs !== null) {
      throw tooMany(`${TOO_MANY[kind]} ${whose}.`, waitMs);
    }
  }
}

/** @param max a minute; 0: as many as come */
function countsOf(max: number, maxKeys = MAX_OTHERS): Counts {
  return max === 0 ? null : new MinuteCounts(max, maxKeys);
}
