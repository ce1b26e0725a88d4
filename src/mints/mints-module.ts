import type { Clock } from '../clock.ts';
import type { Db } from '../database/transaction.ts';
import type { Logger } from '../log.ts';
import type { Egress } from '../net/egress.ts';
import { MINT_CONNECTION_LIMITS } from './limits.ts';
import { MintClient } from './mint-client.ts';
import { MintInfoCache } from './mint-info-cache.ts';
import type { MintPolicy } from './mint-policy.ts';
import { MintRateLimiter, type MintRateLimiterOptions } from './mint-rate-limiter.ts';
import { loadMintInfo, saveMintInfo } from './mint-store.ts';
import { WatchBudget } from './watch-budget.ts';

interface MintsModuleOptions
  extends Pick<MintRateLimiterOptions, 'monotonicMs' | 'onRequestFinished'> {
  db: Db;
  policy: MintPolicy;
  egress: Egress;
  clock: Clock;
  log: Logger;
}

export type Mints = ReturnType<typeof createMintsModule>;

/** Payers, polls and the swaps of username purchases have separate connections, so that payers cannot delay the rest. */
export function createMintsModule(options: MintsModuleOptions) {
  const { db, policy, egress, onRequestFinished, clock, monotonicMs, log } = options;
  const limiter = new MintRateLimiter({ monotonicMs, onRequestFinished, log });
  const payerFetch = egress.createFetch();
  const pollFetch = egress.createFetch();
  const swapFetch = egress.createFetch();
  const payerClient = new MintClient({ fetch: payerFetch, clock, limiter });
  return {
    policy,
    limiter,
    watchBudget: new WatchBudget(policy, monotonicMs),
    infoCache: new MintInfoCache({
      client: payerClient,
      loadInfo: (mintUrl) => loadMintInfo(db, mintUrl),
      saveInfo: (mintUrl, info) => saveMintInfo(db, mintUrl, info, clock()),
      monotonicMs,
      log,
    }),
    payerClient,
    pollClient: new MintClient({ fetch: pollFetch, clock, limiter }),
    swapFetch,
    connectSocket: egress.connect,
    socketSlots: policy.createSlots(MINT_CONNECTION_LIMITS),
    /** Also aborts pending requests. */
    close: () => Promise.all([payerFetch.close(), pollFetch.close(), swapFetch.close()]),
  };
}
