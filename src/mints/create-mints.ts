import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import { type FetchLimits, GuardedFetch } from '../net/guarded-fetch.ts';
import { guardedSocketConnector } from '../net/guarded-socket.ts';
import { HostSlots } from '../net/host-slots.ts';
import { MintAnomalies } from './mint-anomalies.ts';
import { MintClient } from './mint-client.ts';
import { MintInfoCache } from './mint-info-cache.ts';
import { type FinishedRequest, MintRateLimiter } from './mint-rate-limiter.ts';
import type { MintStore } from './mint-store.ts';
import { MINT_CONNECTION_LIMITS } from './mint-subscription.ts';
import { QuoteCreator } from './quote-creator.ts';
import type { MintLimiterTiming } from './route-limit.ts';

export interface CreateMintsOptions {
  store: MintStore;
  /** Normalised URLs of the mints that the operator configured. */
  operatorMints: readonly string[];
  allowPrivateNetworks: boolean;
  fetchLimits: Partial<FetchLimits>;
  timing: Partial<MintLimiterTiming>;
  /** Called after each request to a mint. */
  onFinished: (request: FinishedRequest) => void;
  clock: Clock;
  monotonicMs: () => number;
  log: Log;
}

/** What the other features use to talk to mints. */
export type Mints = ReturnType<typeof createMints>;

/**
 * Constructs the clients for mints and what they share.
 *
 * Payers, polls and the treasury each have a fetch pool with its own bound, so that many payers cannot delay the polls.
 */
export function createMints(options: CreateMintsOptions) {
  const { store, operatorMints, allowPrivateNetworks, clock, monotonicMs, log } = options;
  const limiter = new MintRateLimiter({
    store,
    monotonicMs,
    timing: options.timing,
    onFinished: options.onFinished,
    log,
  });
  const fetchOptions = {
    allowPrivateNetworks,
    trustedOrigins: operatorMints.map((mintUrl) => new URL(mintUrl).origin),
    limits: options.fetchLimits,
  };
  const payerFetch = new GuardedFetch(fetchOptions);
  const pollFetch = new GuardedFetch(fetchOptions);
  const treasuryFetch = new GuardedFetch(fetchOptions);
  const client = new MintClient({ fetch: payerFetch, clock, limiter });
  return {
    limiter,
    anomalies: new MintAnomalies(log),
    infos: new MintInfoCache({
      client,
      recall: (mintUrl) => store.recallInfo(mintUrl),
      remember: (mintUrl, info) => store.rememberInfo(mintUrl, info, clock()),
      monotonicMs,
      log,
    }),
    quoteCreator: new QuoteCreator({ client, limiter, monotonicMs, log }),
    pollClient: new MintClient({ fetch: pollFetch, clock, limiter }),
    treasuryFetch,
    connectSocket: guardedSocketConnector({ allowPrivateNetworks }),
    socketSlots: new HostSlots({
      allowPrivateNetworks,
      ...MINT_CONNECTION_LIMITS,
      trusted: operatorMints,
    }),
    /** Aborts the requests that are under way. */
    close: () => Promise.all([payerFetch.close(), pollFetch.close(), treasuryFetch.close()]),
  };
}
