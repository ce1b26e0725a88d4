import type { Clock } from '../clock.ts';
import { Background } from '../background.ts';
import { hasKeptSecret, keptSecret } from '../database/generated-secret.ts';
import { OperatorError } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Mints } from '../mints/create-mints.ts';
import { EcashClient } from '../mints/ecash-client.ts';
import { KeysetCache } from '../mints/keyset-cache.ts';
import type { MintRateLimiter } from '../mints/mint-rate-limiter.ts';
import type { GuardedFetch } from '../net/guarded-fetch.ts';
import type { Store } from '../store.ts';
import { verifyKeysetKeys } from './ecash/outputs.ts';
import { Sealer } from './ecash/seal.ts';
import { PurchaseUsername, type UsernameOffer } from './purchase-username.ts';
import { ReadPayment } from './read-payment.ts';
import { SETTLE_INTERVAL_MS, SettlePurchases } from './settle-purchases.ts';
import { SwapEcash } from './swap-ecash.ts';

/** The settings that the treasury depends on. */
interface TreasurySettings {
  /** TREASURY_SECRET; null if it is not set. */
  treasurySecret: string | null;
  usernames: Pick<UsernameOffer, 'priceSat' | 'graceMs'>;
  database: { kind: 'sqlite'; dataDir: string } | { kind: 'postgres' };
}

/** What redeems the tokens that pay for usernames, and keeps the ecash. */
export interface TreasuryParts {
  sealer: Sealer;
  keysets: KeysetCache;
  purchases: SettlePurchases;
}

/**
 * Constructs what redeems the tokens that pay for usernames.
 *
 * @returns null without a treasury secret; then usernames cannot be sold
 */
export function createTreasury(options: {
  settings: TreasurySettings;
  store: Store;
  fetch: GuardedFetch;
  limiter: MintRateLimiter;
  clock: Clock;
  monotonicMs: () => number;
  log: Log;
}): TreasuryParts | null {
  const { settings, store, fetch, limiter, clock, monotonicMs, log } = options;
  const treasurySecret = treasurySecretOf(settings);
  if (treasurySecret === null) {
    return null;
  }
  const sealer = new Sealer(treasurySecret);
  const mints = new EcashClient({ fetch, clock, limiter });
  const keysets = new KeysetCache({ client: mints, verify: verifyKeysetKeys, monotonicMs });
  const swapEcash = new SwapEcash({ mints, keysets, treasurySecret });
  const { graceMs } = settings.usernames;
  const settling = { store, swapEcash, keysets, sealer, graceMs, clock, log };
  return { sealer, keysets, purchases: new SettlePurchases(settling) };
}

/**
 * Constructs what sells usernames, and the job that resumes purchases that were interrupted.
 *
 * @throws OperatorError if the treasury secret is not the one that sealed the stored ecash
 */
export async function createUsernames(options: {
  settings: TreasurySettings & { usernames: UsernameOffer };
  store: Store;
  mints: Mints;
  allowHttpMints: boolean;
  clock: Clock;
  monotonicMs: () => number;
  log: Log;
}) {
  const { settings, store, mints, allowHttpMints, clock, monotonicMs, log } = options;
  const { limiter, infos, treasuryFetch: fetch } = mints;
  const treasury = createTreasury({ settings, store, fetch, limiter, clock, monotonicMs, log });
  await refuseWrongSecret(treasury?.sealer ?? null, store);
  const { mintUrl } = settings.usernames;
  const purchaseUsername = new PurchaseUsername({
    offer: settings.usernames,
    store,
    treasury: treasury && {
      ...treasury,
      readPayment: new ReadPayment({
        mintUrl,
        infos,
        keysets: treasury.keysets,
        allowHttpMints,
        log,
      }),
    },
    clock,
  });
  const recovery = new Background({
    work: async () => treasury?.purchases.runDue(),
    intervalMs: SETTLE_INTERVAL_MS,
    onError: (error) => log.warn({ err: error }, 'purchase recovery failed; will retry'),
  });
  return {
    purchaseUsername,
    start: () => recovery.start(),
    stop: () => Promise.all([recovery.stop(), treasury?.purchases.idle()]),
  };
}

/** Returns what opens the stored ecash; null if there is no treasury secret. */
export function createSealer(settings: TreasurySettings): Sealer | null {
  const treasurySecret = treasurySecretOf(settings);
  return treasurySecret === null ? null : new Sealer(treasurySecret);
}

/** With SQLite, the secret is generated when names first have a price. */
function treasurySecretOf({ treasurySecret, usernames, database }: TreasurySettings): string | null {
  if (treasurySecret !== null || database.kind !== 'sqlite') {
    return treasurySecret;
  }
  const { dataDir } = database;
  const isNeeded = (usernames.priceSat ?? 0) > 0 || hasKeptSecret(dataDir, 'treasury-secret');
  return isNeeded ? keptSecret(dataDir, 'treasury-secret') : null;
}

/**
 * Refuses to start without the secret that opens the stored ecash: open purchases could not be settled,
 * and a different secret would seal new ecash that the right one cannot open.
 *
 * @param sealer null if there is no secret
 * @throws OperatorError
 */
export async function refuseWrongSecret(sealer: Sealer | null, { treasury }: Store): Promise<void> {
  if (sealer === null && (await treasury.hasSealed())) {
    throw new OperatorError('TREASURY_SECRET: is missing, and stored ecash needs it.');
  }
  if (sealer !== null && !(await treasury.claimKey(sealer.keyId))) {
    throw new OperatorError(
      'TREASURY_SECRET: is not the secret that sealed the stored ecash; set that one, or the ecash is lost.',
    );
  }
}
