import type { Clock } from '../clock.ts';
import type { Logger } from '../log.ts';
import type { Egress } from '../net/egress.ts';
import { SiteSemaphore } from '../net/site-semaphore.ts';
import { MintAnomalyCounter } from './mint-anomalies.ts';
import { MintInfoCache } from './mint-cache.ts';
import { MintClient } from './mint-client.ts';
import { MintRateLimiter, type MintRateLimiterDeps } from './mint-rate-limiter.ts';
import type { MintStore } from './mint-store.ts';
import { MINT_CONNECTION_LIMITS } from './mint-subscription.ts';
import { QuoteCreator } from './quote-creator.ts';
import type { RateLimiterTiming } from './route-rate-limiter.ts';
import { WatchBudget } from './watch-budget.ts';

interface MintsModuleOptions
  extends Pick<MintRateLimiterDeps, 'monotonicMs' | 'onRequestFinished'> {
  store: MintStore;
  /** Normalised URLs of the mints that the operator configured. */
  operatorMints: readonly string[];
  allowPrivateNetworks: boolean;
  egress: Egress;
  limiterTiming: Partial<RateLimiterTiming>;
  clock: Clock;
  log: Logger;
}

export type Mints = ReturnType<typeof createMintsModule>;

/**
 * Constructs the clients for mints and what they share. Payers, polls and the treasury have separate connections, so
 * that many payers cannot delay the polls.
 */
export function createMintsModule(options: MintsModuleOptions) {
  const { store, operatorMints, allowPrivateNetworks, egress, clock, monotonicMs, log } = options;
  const limiter = new MintRateLimiter({ ...options, timing: options.limiterTiming });
  const payerFetch = egress.createFetch();
  const pollFetch = egress.createFetch();
  const treasuryFetch = egress.createFetch();
  const client = new MintClient({ fetch: payerFetch, clock, limiter });
  const isPortPartOfSite = allowPrivateNetworks;
  return {
    limiter,
    watchBudget: new WatchBudget({ operatorMints, isPortPartOfSite }),
    anomalies: new MintAnomalyCounter(log),
    infoCache: new MintInfoCache({
      client,
      loadInfo: (mintUrl) => store.loadInfo(mintUrl),
      saveInfo: (mintUrl, info) => store.saveInfo(mintUrl, info, clock()),
      monotonicMs,
      log,
    }),
    quoteCreator: new QuoteCreator({ client, limiter, monotonicMs, log }),
    pollClient: new MintClient({ fetch: pollFetch, clock, limiter }),
    treasuryFetch,
    connectSocket: egress.connect,
    socketSlots: new SiteSemaphore({
      isPortPartOfSite,
      ...MINT_CONNECTION_LIMITS,
      exemptUrls: operatorMints,
    }),
    /** Also aborts pending requests. */
    close: () => Promise.all([payerFetch.close(), pollFetch.close(), treasuryFetch.close()]),
  };
}
