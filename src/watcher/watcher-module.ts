import type { Store } from '../store.ts';
import { MintWatcher, type MintWatcherDeps } from './mint-watcher.ts';
import { MIN_POLL_INTERVAL_MS } from './quote-poller.ts';
import {
  SCAN_INTERVAL_MS,
  WatchCoordinator,
  type WatchCoordinatorDeps,
} from './watch-coordinator.ts';

export interface WatcherModuleOptions
  extends Pick<WatchCoordinatorDeps, 'operatorMints' | 'processId' | 'announce'>,
    Omit<MintWatcherDeps, 'mintUrl' | 'quoteStore' | 'minPollIntervalMs'> {
  store: Store;
  minPollIntervalMs?: number | undefined;
  scanIntervalMs?: number | undefined;
}

/** Constructs the watcher of all mints. */
export function createWatcherModule(options: WatcherModuleOptions): WatchCoordinator {
  const { store, minPollIntervalMs = MIN_POLL_INTERVAL_MS } = options;
  const quoteStore = store.watchedQuotes;
  return new WatchCoordinator({
    ...options,
    quoteStore,
    leaseStore: store.leases,
    createMintWatcher: (mintUrl) =>
      new MintWatcher({ ...options, mintUrl, quoteStore, minPollIntervalMs }),
    scanIntervalMs: options.scanIntervalMs ?? SCAN_INTERVAL_MS,
  });
}
