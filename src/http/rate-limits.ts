import type { FastifyContextConfig, FastifyRequest, onRequestHookHandler } from 'fastify';
import { clientNetwork } from '../domain/client-network.ts';
import { tooMany } from '../domain/errors.ts';
import { FixedWindowCounter } from '../domain/fixed-window-counter.ts';
import type { InboundLimits } from '../domain/limits.ts';
import { MAX_DOCUMENTS_PER_MINUTE } from './limits.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Another limit that counts the requests of this route. */
    countedAs?: CostlyKind;
    /** Exempts the route from the limits. */
    isUnlimited?: true;
  }
}

/** Requests that cost a mint, or a connection for long, and so have limits of their own. */
type CostlyKind = 'changes' | 'purchases' | 'documents';

type Kind = 'requests' | CostlyKind;

/** Those that are asked for with a key. */
type KindOfKeys = Exclude<Kind, 'documents'>;

/** Null: no limit. */
type Counter = FixedWindowCounter | null;

/**
 * Addresses whose requests are counted: twice the 65,536 address groups of an IPv6 /48, so that the owner of one cannot
 * make the service drop the counts of other clients.
 */
const MAX_ADDRESSES = 2 * 65_536;

/** Addresses or keys of each other limit. */
const MAX_OTHERS = 20_000;

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
  readonly #byAddress: Record<Kind, Counter>;
  readonly #byKey: Record<KindOfKeys, Counter>;

  constructor(limits: InboundLimits, monotonicMs: () => number) {
    /** @param perMinute 0: no limit */
    const counter = (perMinute: number, maxKeys = MAX_OTHERS) =>
      perMinute === 0 ? null : new FixedWindowCounter(perMinute, maxKeys, monotonicMs);
    this.#byAddress = {
      requests: counter(limits.requests, MAX_ADDRESSES),
      changes: counter(limits.changes),
      purchases: counter(limits.purchases),
      documents: counter(MAX_DOCUMENTS_PER_MINUTE),
    };
    this.#byKey = {
      requests: counter(limits.requests),
      changes: counter(limits.changes),
      purchases: counter(limits.purchases),
    };
  }

  /**
   * Hook: rejects an address with too many requests. A preflight counts but is never rejected, because a web page
   * cannot read that response; it can read the response to the request that follows.
   */
  readonly limitAddress: onRequestHookHandler = (request, _reply, done) => {
    if (request.method === 'OPTIONS') {
      this.#byAddress.requests?.count(clientNetwork(request.ip));
    } else {
      const { config } = request.routeOptions;
      if (config.isUnlimited !== true) {
        this.#countAddress(request, config);
      }
    }
    done();
  };

  /** Hook, for after authentication: rejects a key with too many requests. */
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
  #count<Of extends Kind>(
    counters: Record<Of, Counter>,
    kind: Of,
    key: string,
    whose: string,
  ): void {
    const waitMs = counters[kind]?.count(key) ?? null;
    if (waitMs !== null) {
      throw tooMany(`${TOO_MANY[kind]} ${whose}.`, waitMs);
    }
  }
}
