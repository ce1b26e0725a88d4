import { saveMintContacts } from '../mints/mint-store.ts';
import type { Store } from '../store.ts';
import { createRecordingSlots, MintWatcher, type MintWatcherDeps } from './mint-watcher.ts';
import { MIN_POLL_INTERVAL_MS } from './quote-poller.ts';
import {
  SCAN_INTERVAL_MS,
  WatchCoordinator,
  type WatchCoordinatorDeps,
} from './watch-coordinator.ts';

export interface WatcherModuleOptions
  extends Pick<WatchCoordinatorDeps, 'processId' | 'announce' | 'getUntrustedProxy'>,
    Omit<MintWatcherDeps, 'mintUrl' | 'db' | 'recordingSlots' | 'minPollIntervalMs'> {
  store: Store;
  minPollIntervalMs?: number | undefined;
  scanIntervalMs?: number | undefined;
}

/** Constructs the watcher of all mints. */
export function createWatcherModule(options: WatcherModuleOptions): WatchCoordinator {
  const { store, mints, minPollIntervalMs = MIN_POLL_INTERVAL_MS } = options;
  const { db } = store;
  const recordingSlots = createRecordingSlots(mints.policy);
  return new WatchCoordinator({
    ...options,
    db,
    saveContacts: (contacts) => saveMintContacts(db, contacts),
    mintPolicy: mints.policy,
    watchBudget: mints.watchBudget,
    createMintWatcher: (mintUrl) =>
      new MintWatcher({ ...options, mintUrl, db, recordingSlots, minPollIntervalMs }),
    scanIntervalMs: options.scanIntervalMs ?? SCAN_INTERVAL_MS,
  });
}
