import type { Store } from '../store.ts';
import { createRecordingSlots, MintWatcher, type MintWatcherDeps } from './mint-watcher.ts';
import { MIN_POLL_INTERVAL_MS } from './quote-poller.ts';
import {
  SCAN_INTERVAL_MS,
  WatchCoordinator,
  type WatchCoordinatorDeps,
} from './watch-coordinator.ts';

export interface WatcherModuleOptions
  extends Pick<
      WatchCoordinatorDeps,
      'operatorMints' | 'processId' | 'announce' | 'getUntrustedProxy'
    >,
    Omit<
      MintWatcherDeps,
      'mintUrl' | 'isOperatorMint' | 'quoteStore' | 'recordingSlots' | 'minPollIntervalMs'
    > {
  allowPrivateNetworks: boolean;
  store: Store;
  minPollIntervalMs?: number | undefined;
  scanIntervalMs?: number | undefined;
}

/** Constructs the watcher of all mints. */
export function createWatcherModule(options: WatcherModuleOptions): WatchCoordinator {
  const { store, mints, operatorMints, minPollIntervalMs = MIN_POLL_INTERVAL_MS } = options;
  const quoteStore = store.watchedQuotes;
  const isPortPartOfSite = options.allowPrivateNetworks;
  const recordingSlots = createRecordingSlots({ operatorMints, isPortPartOfSite });
  return new WatchCoordinator({
    ...options,
    quoteStore,
    leaseStore: store.leases,
    mintStore: store.mints,
    watchBudget: mints.watchBudget,
    isPortPartOfSite,
    createMintWatcher: (mintUrl) => {
      const isOperatorMint = operatorMints.includes(mintUrl);
      return new MintWatcher({
        ...options,
        mintUrl,
        isOperatorMint,
        quoteStore,
        recordingSlots,
        minPollIntervalMs,
      });
    },
    scanIntervalMs: options.scanIntervalMs ?? SCAN_INTERVAL_MS,
  });
}
