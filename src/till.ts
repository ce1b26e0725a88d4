import type { Config } from './config.ts';
import type { Clock } from './domain/clock.ts';
import { OperatorError } from './domain/errors.ts';
import { verifyKeysetKeys } from './ecash/outputs.ts';
import { Sealer } from './ecash/seal.ts';
import { LnurlClient } from './lnurl/lnurl-client.ts';
import type { Log } from './log.ts';
import { EcashClient } from './mint/ecash-client.ts';
import { KeysetCache } from './mint/keyset-cache.ts';
import { limitedEcashClient } from './mint/limited-ecash-client.ts';
import { MintAnomalies } from './mint/mint-anomalies.ts';
import { MintClient } from './mint/mint-client.ts';
import type { MintRateLimiter } from './mint/mint-rate-limiter.ts';
import type { GuardedFetch } from './net/guarded-fetch.ts';
import { hasKeptSecret, keptSecret } from './store/generated-secret.ts';
import type { Store } from './store/store.ts';
import { MeltEcash } from './usecases/melt-ecash.ts';
import { PlanOutputs } from './usecases/plan-outputs.ts';
import { PlanPayout } from './usecases/plan-payout.ts';
import { PlanSplit } from './usecases/plan-split.ts';
import { SettlePurchases } from './usecases/settle-purchases.ts';
import { SettleWithdrawals } from './usecases/settle-withdrawals.ts';
import { ShowTreasury } from './usecases/show-treasury.ts';
import { SwapEcash } from './usecases/swap-ecash.ts';
import { WithdrawTreasury } from './usecases/withdraw-treasury.ts';

/** What moves the operator's ecash, each part once: for the service, and for a command beside it. */
export interface Till {
  sealer: Sealer;
  keysets: KeysetCache;
  planOutputs: PlanOutputs;
  settlePurchases: SettlePurchases;
  treasury: { show: ShowTreasury; withdraw: WithdrawTreasury };
  /** Goes on with every purchase and withdrawal whose time has come, until told to stop. */
  settle(signal: AbortSignal): Promise<void>;
  /** Resolves when none of them is under way in this process. */
  idle(): Promise<void>;
}

/**
 * Constructs the till.
 *
 * @returns null where there is no treasury secret: then nothing can be bought or paid out
 */
export function openTill(parts: {
  config: Config;
  store: Store;
  fetch: GuardedFetch;
  limiter: MintRateLimiter;
  clock: Clock;
  log: Log;
}): Till | null {
  const { config, store, fetch, limiter, clock, log } = parts;
  const treasurySecret = treasurySecretOf(config);
  if (treasurySecret === null) {
    return null;
  }
  const sealer = new Sealer(treasurySecret);
  const mints = limitedEcashClient(new EcashClient({ fetch, clock }), limiter);
  const keysets = new KeysetCache({ client: mints, verify: verifyKeysetKeys, clock });
  const planOutputs = new PlanOutputs(keysets);
  const planSplit = new PlanSplit(planOutputs, keysets);
  const swapEcash = new SwapEcash({ mints, keysets, treasurySecret });
  const settlePurchases = new SettlePurchases({
    store,
    swapEcash,
    planOutputs,
    sealer,
    graceMs: config.usernames.graceMs,
    clock,
    log,
  });
  const settleWithdrawals = new SettleWithdrawals({
    store,
    mints,
    swapEcash,
    meltEcash: new MeltEcash({ mints, keysets, treasurySecret }),
    planOutputs,
    planSplit,
    sealer,
    clock,
    log,
  });
  const infos = new MintClient({ fetch, anomalies: new MintAnomalies(log), clock });
  const lnurl = new LnurlClient({ fetch, allowHttp: config.allowPrivateNetworks });
  return {
    sealer,
    keysets,
    planOutputs,
    settlePurchases,
    treasury: {
      show: new ShowTreasury({ store, mints, sealer, clock }),
      withdraw: new WithdrawTreasury({
        store,
        mints,
        keysets,
        planOutputs,
        planSplit,
        planPayout: new PlanPayout({ lnurl, mints, keysets, infos }),
        settleWithdrawals,
        sealer,
        clock,
      }),
    },
    settle: async (signal) => {
      await Promise.all([settlePurchases.run(signal), settleWithdrawals.run(signal)]);
    },
    idle: async () => {
      await Promise.all([settlePurchases.idle(), settleWithdrawals.idle()]);
    },
  };
}

/** With the embedded database it is made where names have a price, and used from then on. */
function treasurySecretOf({ treasurySecret, usernames, database }: Config): string | null {
  if (treasurySecret !== null || database.kind !== 'embedded') {
    return treasurySecret;
  }
  const { dataDir } = database;
  const isNeeded = (usernames.priceSat ?? 0) > 0 || hasKeptSecret(dataDir, 'treasury-secret');
  return isNeeded ? keptSecret(dataDir, 'treasury-secret') : null;
}

/**
 * Refuses to go on where what is kept cannot be opened: purchases under way would never end, and with
 * another secret more would be earned that the one which is needed does not open.
 *
 * @param till null where there is no secret
 * @throws OperatorError
 */
export async function refuseWrongSecret(till: Till | null, { treasury }: Store): Promise<void> {
  if (till === null && (await treasury.hasSealed())) {
    throw new OperatorError(
      'TREASURY_SECRET: is missing, and there is ecash that only it can open.',
    );
  }
  if (till !== null && !(await treasury.claimKey(till.sealer.keyId))) {
    throw new OperatorError(
      'TREASURY_SECRET: is not the one that encrypted the ecash that is kept; give that one, or it is lost.',
    );
  }
}
