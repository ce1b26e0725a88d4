import type { Clock } from '../../clock.ts';
import type { Database } from '../../database/database.ts';
import { findNewestBackup } from '../../database/newest-backup-store.ts';
import type { Readiness } from '../../database/readiness.ts';
import type { Db } from '../../database/transaction.ts';
import type { MintInfoCache } from '../../mints/mint-info-cache.ts';
import { findMintHealth } from '../../mints/mint-store.ts';
import { listWatchedMints } from '../../quotes/watched-quote-store.ts';
import type { Sealer } from '../../sealer.ts';
import { findTreasuryProblem } from '../../usernames/treasury.ts';
import { MAX_BACKUP_AGE_MS } from '../doctor/check-database.ts';
import { formatCount, formatSat, formatTime } from '../format.ts';
import { readPaymentsPastDeadline } from './alert-store.ts';
import type { AlertCheck } from './alerts.ts';

interface CheckContext {
  database: Pick<Database, 'db' | 'readDiskSpace'>;
  readiness: Pick<Readiness, 'getStatus'>;
  mintInfoCache: MintInfoCache;
  defaultMintUrl: string;
  /** Of the treasury secret; null without one. */
  sealer: Sealer | null;
  clock: Clock;
}

/** Creates the checks, which use what the service measures anyway. */
export function createAlertChecks(context: CheckContext) {
  const { database, readiness, mintInfoCache, defaultMintUrl, sealer, clock } = context;
  const { db } = database;
  // Null also if the disk cannot be read, because the alerts about other problems must be sent then, too.
  const readDiskSpace = () => database.readDiskSpace().catch(() => null);
  return {
    database_unavailable: async () => {
      const { checks } = await readiness.getStatus();
      const disk = await readDiskSpace();
      const text = `It cannot be read or written${disk === null ? '' : `; ${toMegabytes(disk.freeBytes)} of its disk are free`}.`;
      return checks.database === 'ok' ? null : { text };
    },
    backup_too_old: async () => {
      const madeAtMs = await findNewestBackup(db);
      // Null: the operator makes backups in another way, or none.
      if (madeAtMs === null || clock() - madeAtMs <= MAX_BACKUP_AGE_MS) {
        return null;
      }
      const text = `The newest backup was made at ${formatTime(madeAtMs)}.`;
      return { sinceMs: madeAtMs + MAX_BACKUP_AGE_MS, text };
    },
    default_mint_down: async () => {
      const text = `${defaultMintUrl} does not answer, so users who have not chosen another mint cannot be paid.`;
      const health = await findMintHealth(db, defaultMintUrl);
      const sinceMs = health?.failingSinceMs ?? null;
      const { outcome } = await mintInfoCache.lookUp(defaultMintUrl);
      if (outcome !== 'found') {
        return { sinceMs, text };
      }
      // Without open invoices nothing is polled, so the last failure of a poll may be old.
      const isPolled = async () =>
        (await listWatchedMints(db)).some(({ mintUrl }) => mintUrl === defaultMintUrl);
      return sinceMs !== null && (await isPolled()) ? { sinceMs, text } : null;
    },
    disk_low: async () => {
      const disk = await readDiskSpace();
      if (disk === null) {
        return 'unknown';
      }
      const percent = Math.floor((100 * disk.freeBytes) / disk.totalBytes);
      const text = `${percent} % of the disk of DATA_DIR are free (${toMegabytes(disk.freeBytes)}).`;
      if (percent < 10) {
        return { text };
      }
      // Between the bounds, an alert neither begins nor ends, so that it does not alternate.
      return percent < 12 ? 'unknown' : null;
    },
    payments_past_deadline: async () => {
      const { count, sat } = await readPaymentsPastDeadline(db, clock());
      const text = `${formatCount(count, 'payment')} (${formatSat(sat)}) of the last day can perhaps not be collected any more: ask the recipients to open their wallets. \`nutpost user list --uncollected\` lists them.`;
      return count === 0 ? null : { text };
    },
    treasury_secret_wrong: createTreasuryCheck(db, sealer),
  } satisfies Record<string, AlertCheck>;
}

export function createTreasuryCheck(db: Db, sealer: Sealer | null): AlertCheck {
  return async () => {
    const text = await findTreasuryProblem(sealer, db);
    return text === null ? null : { text };
  };
}

function toMegabytes(bytes: number): string {
  return `${Math.floor(bytes / 1_000_000)} MB`;
}
