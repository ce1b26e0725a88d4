import type { Store } from '../store.ts';
import { MintWatcher, type MintWatcherDeps } from './mint-watcher.ts';
import { MIN_POLL_INTERVAL_MS } from './quote-poller.ts';
import { QuoteWatcher, type QuoteWatcherDeps, SCAN_INTERVAL_MS } from './quote-watcher.ts';

export interface CreateWatcherOptions
  extends Pick<QuoteWatcherDeps, 'operatorMints' | 'processId' | 'announce'>,
    Omit<MintWatcherDeps, 'mintUrl' | 'quoteStore' | 'minPollIntervalMs'> {
  store: Store;
  minPollIntervalMs?: number | undefined;
  scanIntervalMs?: number | undefined;
}

/** Constructs the watcher, which leases mints and watches their quotes. */
export function createWatcher(options: CreateWatcherOptions): QuoteWatcher {
  const { store, minPollIntervalMs = MIN_POLL_INTERVAL_MS } = options;
  const quoteStore = store.watchedQuotes;
  return new QuoteWatcher({
    ...options,
    quoteStore,
    leaseStore: store.leases,
    createMintWatcher: (mintUrl) =>
      new MintWatcher({ ...options, mintUrl, quoteStore, minPollIntervalMs }),
    scanIntervalMs: options.scanIntervalMs ?? SCAN_INTERVAL_MS,
  });
}
