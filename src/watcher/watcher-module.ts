import type { Db } from '../database/transaction.ts';
import { MIN_POLL_INTERVAL_MS, SCAN_INTERVAL_MS, USER_MINT_RECORDINGS } from './limits.ts';
import { MintWatcher, type WatchContext } from './mint-watcher.ts';
import { type CoordinatorContext, WatchCoordinator } from './watch-coordinator.ts';

interface WatcherModuleOptions
  extends Omit<WatchContext, 'db' | 'recordingSlots' | 'minPollIntervalMs'>,
    Pick<CoordinatorContext, 'processId' | 'announce' | 'getUntrustedProxy'> {
  db: Db;
  minPollIntervalMs?: number | undefined;
  scanIntervalMs?: number | undefined;
}

/** Constructs the watcher of all mints. */
export function createWatcherModule(options: WatcherModuleOptions): WatchCoordinator {
  const { db, mints, monotonicMs, log } = options;
  const watchContext: WatchContext = {
    mints,
    db,
    recording: options.recording,
    recordingSlots: mints.policy.createSlots(USER_MINT_RECORDINGS),
    onQuotesChanged: options.onQuotesChanged,
    minPollIntervalMs: options.minPollIntervalMs ?? MIN_POLL_INTERVAL_MS,
    clock: options.clock,
    monotonicMs,
    log,
  };
  return new WatchCoordinator(
    {
      db,
      processId: options.processId,
      mintPolicy: mints.policy,
      watchBudget: mints.watchBudget,
      getUntrustedProxy: options.getUntrustedProxy,
      announce: options.announce,
      scanIntervalMs: options.scanIntervalMs ?? SCAN_INTERVAL_MS,
      monotonicMs,
      log,
    },
    (mintUrl) => new MintWatcher(mintUrl, watchContext),
  );
}
