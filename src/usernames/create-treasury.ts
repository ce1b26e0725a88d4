import type { Config } from '../config.ts';
import { hasKeptSecret, keptSecret } from '../database/generated-secret.ts';
import type { Clock } from '../clock.ts';
import { OperatorError } from '../errors.ts';
import { verifyKeysetKeys } from './ecash/outputs.ts';
import { Sealer } from './ecash/seal.ts';
import type { Log } from '../log.ts';
import { EcashClient } from '../mints/ecash-client.ts';
import { KeysetCache } from '../mints/keyset-cache.ts';
import type { MintRateLimiter } from '../mints/mint-rate-limiter.ts';
import type { GuardedFetch } from '../net/guarded-fetch.ts';
import type { Store } from '../store.ts';
import { SettlePurchases } from './settle-purchases.ts';
import { SwapEcash } from './swap-ecash.ts';

/** What selling usernames needs. */
export interface TreasuryParts {
  sealer: Sealer;
  keysets: KeysetCache;
  purchases: SettlePurchases;
}

/**
 * Constructs what redeems the tokens that pay for usernames.
 *
 * @returns null if there is no treasury secret: then usernames cannot be sold
 */
export function createTreasury(parts: {
  config: Config;
  store: Store;
  fetch: GuardedFetch;
  limiter: MintRateLimiter;
  clock: Clock;
  monotonicMs: () => number;
  log: Log;
}): TreasuryParts | null {
  const { config, store, fetch, limiter, clock, monotonicMs, log } = parts;
  const treasurySecret = treasurySecretOf(config);
  if (treasurySecret === null) {
    return null;
  }
  const sealer = new Sealer(treasurySecret);
  const mints = new EcashClient({ fetch, clock, limiter });
  const keysets = new KeysetCache({ client: mints, verify: verifyKeysetKeys, monotonicMs });
  const swapEcash = new SwapEcash({ mints, keysets, treasurySecret });
  const { graceMs } = config.usernames;
  const settling = { store, swapEcash, keysets, sealer, graceMs, clock, log };
  return { sealer, keysets, purchases: new SettlePurchases(settling) };
}

/** Returns what opens the stored ecash; null if there is no treasury secret. */
export function createSealer(config: Config): Sealer | null {
  const treasurySecret = treasurySecretOf(config);
  return treasurySecret === null ? null : new Sealer(treasurySecret);
}

/** With SQLite, the secret is generated when names first have a price. */
function treasurySecretOf({ treasurySecret, usernames, database }: Config): string | null {
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
