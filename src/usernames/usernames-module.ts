import { createDatabaseJob } from '../background-job.ts';
import type { Clock } from '../clock.ts';
import { loadOrGenerateSecret, readGeneratedSecret } from '../database/data-dir.ts';
import type { Db } from '../database/transaction.ts';
import { OperatorError } from '../errors.ts';
import type { Logger } from '../log.ts';
import { EcashClient } from '../mints/ecash-client.ts';
import type { Mints } from '../mints/mints-module.ts';
import { Sealer } from '../sealer.ts';
import { KeysetCache } from './ecash/keyset-cache.ts';
import { type PurchaseContext, resumeDuePurchases } from './purchase.ts';
import type { UsernamePolicy } from './register-username.ts';
import { findTreasuryProblem } from './treasury.ts';
import { activateTreasuryKey } from './treasury-store.ts';

interface TreasurySettings {
  treasurySecret: string | null;
  usernames: Pick<UsernamePolicy, 'priceSat' | 'graceMs'>;
  hasNotifications?: boolean;
  database: { kind: 'sqlite'; dataDir: string } | { kind: 'postgres' };
}

interface PurchaseOptions {
  settings: TreasurySettings;
  db: Db;
  mints: Pick<Mints, 'limiter' | 'swapFetch'>;
  clock: Clock;
  monotonicMs: () => number;
  log: Logger;
}

/** Constructs the sale of usernames, and the job that resumes interrupted purchases. */
export async function createUsernamesModule(
  options: PurchaseOptions & {
    settings: { usernames: UsernamePolicy };
    mints: Mints;
    allowHttpMints: boolean;
    recoveryIntervalMs?: number | undefined;
  },
) {
  const { settings, db, mints, allowHttpMints, clock, log } = options;
  const sealer = await prepareTreasurySecret(settings, db);
  const purchases = createPurchaseContext(options);
  const { usernames: policy } = settings;
  const { infoCache: mintInfoCache } = mints;
  const context = { db, policy, mintInfoCache, allowHttpMints, purchases, clock, log };
  const recoveryJob =
    purchases &&
    createDatabaseJob(
      {
        work: () => resumeDuePurchases(purchases),
        intervalMs: options.recoveryIntervalMs ?? 2_000,
      },
      { event: 'purchase_recovery_failed', message: 'purchase recovery failed' },
      options,
    );
  return { context, sealer, recoveryJob };
}

/** Returns null if there is no treasury secret, which selling usernames requires. */
export function createPurchaseContext(options: PurchaseOptions): PurchaseContext | null {
  const { settings, db, mints, clock, monotonicMs, log } = options;
  const treasurySecret = findTreasurySecret(settings);
  if (treasurySecret === null) {
    return null;
  }
  const client = new EcashClient({ fetch: mints.swapFetch, clock, limiter: mints.limiter });
  return {
    db,
    client,
    keysetCache: new KeysetCache(client, monotonicMs),
    treasurySecret,
    sealer: new Sealer(treasurySecret),
    graceMs: settings.usernames.graceMs,
    clock,
    log,
  };
}

export function createTreasurySealer(settings: TreasurySettings): Sealer | null {
  const treasurySecret = findTreasurySecret(settings);
  return treasurySecret === null ? null : new Sealer(treasurySecret);
}

/** Returns the configured secret; otherwise, with SQLite, that of the data directory. Null if there is neither. */
function findTreasurySecret({ treasurySecret, database }: TreasurySettings): string | null {
  return treasurySecret === null && database.kind === 'sqlite'
    ? readGeneratedSecret(database.dataDir, 'treasury-secret')
    : treasurySecret;
}

/**
 * Checks that the secret opens what was sealed with it. With SQLite, generates a secret if usernames have a price or
 * recipients may be notified. Returns null if there is none.
 */
async function prepareTreasurySecret(settings: TreasurySettings, db: Db): Promise<Sealer | null> {
  const { usernames, hasNotifications, database } = settings;
  let sealer = createTreasurySealer(settings);
  const problem = await findTreasuryProblem(sealer, db);
  if (problem !== null) {
    throw new OperatorError(problem);
  }
  if (sealer === null && database.kind === 'sqlite' && (usernames.priceSat || hasNotifications)) {
    sealer = new Sealer(loadOrGenerateSecret(database.dataDir, 'treasury-secret'));
  }
  if (sealer !== null && !(await activateTreasuryKey(db, sealer.keyId))) {
    throw new OperatorError('TREASURY_SECRET: another process sealed ecash with another secret.');
  }
  return sealer;
}
