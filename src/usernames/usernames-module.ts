import { BackgroundJob } from '../background-job.ts';
import type { Clock } from '../clock.ts';
import { hasGeneratedSecret, loadOrGenerateSecret } from '../database/generated-secret.ts';
import { OperatorError } from '../errors.ts';
import type { Logger } from '../log.ts';
import { EcashClient } from '../mints/ecash-client.ts';
import { KeysetCache } from '../mints/mint-cache.ts';
import type { Mints } from '../mints/mints-module.ts';
import { OutageTracker } from '../outage-tracker.ts';
import type { Store } from '../store.ts';
import { verifyKeysetKeys } from './ecash/proofs.ts';
import { PURCHASE_RECOVERY_INTERVAL_MS, PurchaseProcessor } from './purchase-processor.ts';
import { Sealer } from './treasury-store.ts';
import { type UsernamePolicy, UsernameRegistrar } from './username-registrar.ts';

interface TreasurySettings {
  /** `TREASURY_SECRET`; null if it is not set. */
  treasurySecret: string | null;
  usernames: Pick<UsernamePolicy, 'priceSat' | 'graceMs'>;
  database: { kind: 'sqlite'; dataDir: string } | { kind: 'postgres' };
}

interface TreasuryOptions {
  settings: TreasurySettings;
  store: Store;
  mints: Pick<Mints, 'limiter' | 'treasuryFetch'>;
  clock: Clock;
  monotonicMs: () => number;
  log: Logger;
}

/**
 * Constructs what redeems the tokens that pay for usernames, and stores the ecash.
 *
 * @returns null without a treasury secret, which selling usernames requires
 */
export function createTreasury(options: TreasuryOptions) {
  const { settings, store, mints, clock, monotonicMs, log } = options;
  const treasurySecret = resolveTreasurySecret(settings);
  if (treasurySecret === null) {
    return null;
  }
  const sealer = new Sealer(treasurySecret);
  const client = new EcashClient({ fetch: mints.treasuryFetch, clock, limiter: mints.limiter });
  const keysetCache = new KeysetCache({ client, verifyKeys: verifyKeysetKeys, monotonicMs });
  const swapContext = { client, keysetCache, treasurySecret };
  const { graceMs } = settings.usernames;
  const processor = new PurchaseProcessor({ store, swapContext, sealer, graceMs, clock, log });
  return { sealer, keysetCache, processor };
}

/**
 * Constructs the service that sells usernames, and the job that resumes interrupted purchases.
 *
 * @throws OperatorError if the treasury secret is not the one that sealed the stored ecash
 */
export async function createUsernamesModule(
  options: TreasuryOptions & {
    settings: { usernames: UsernamePolicy };
    mints: Mints;
    allowHttpMints: boolean;
  },
) {
  const { settings, store, mints, allowHttpMints, clock, monotonicMs, log } = options;
  const { usernames: policy } = settings;
  const treasury = createTreasury(options);
  await assertTreasurySecret(treasury?.sealer ?? null, store);
  const usernameRegistrar = new UsernameRegistrar({
    policy,
    store,
    paidPurchases: treasury && {
      paymentContext: {
        mintUrl: policy.mintUrl,
        mintInfoCache: mints.infoCache,
        keysetCache: treasury.keysetCache,
        allowHttpMints,
        log,
      },
      processor: treasury.processor,
    },
    clock,
  });
  const outage = new OutageTracker(monotonicMs);
  const recovery = new BackgroundJob({
    work: async () => {
      await treasury?.processor.resumeDue();
      outage.recordSuccess();
    },
    intervalMs: PURCHASE_RECOVERY_INTERVAL_MS,
    onError: (err) => {
      const level = outage.recordFailure() ? 'warn' : 'debug';
      log[level](
        { event: 'purchase_recovery_failed', err },
        'purchase recovery failed; will retry',
      );
    },
  });
  return {
    usernameRegistrar,
    start: () => recovery.start(),
    stop: () => Promise.all([recovery.stop(), treasury?.processor.waitUntilIdle()]),
  };
}

/** @returns null without a treasury secret */
export function createTreasurySealer(settings: TreasurySettings): Sealer | null {
  const treasurySecret = resolveTreasurySecret(settings);
  return treasurySecret === null ? null : new Sealer(treasurySecret);
}

/** Returns the configured secret. With SQLite, generates a secret when usernames first have a price. */
function resolveTreasurySecret(settings: TreasurySettings): string | null {
  const { treasurySecret, usernames, database } = settings;
  if (treasurySecret !== null || database.kind !== 'sqlite') {
    return treasurySecret;
  }
  const { dataDir } = database;
  const isNeeded = usernames.priceSat || hasGeneratedSecret(dataDir, 'treasury-secret');
  return isNeeded ? loadOrGenerateSecret(dataDir, 'treasury-secret') : null;
}

/**
 * Checks that the treasury secret opens the stored ecash. Without the right secret, open purchases could not be
 * completed, and ecash would be sealed with several secrets.
 *
 * @param sealer null without a treasury secret
 * @throws OperatorError
 */
async function assertTreasurySecret(sealer: Sealer | null, { treasury }: Store): Promise<void> {
  if (sealer === null && (await treasury.hasSealedData())) {
    throw new OperatorError('TREASURY_SECRET: is missing, but the stored ecash needs it.');
  }
  if (sealer !== null && !(await treasury.activateKey(sealer.keyId))) {
    throw new OperatorError(
      'TREASURY_SECRET: is not the secret that sealed the stored ecash; set that secret, or the ecash is lost.',
    );
  }
}
