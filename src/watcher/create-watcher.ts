import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { Mints } from '../mints/create-mints.ts';
import type { IssuedQuote } from '../quotes/quote-channel.ts';
import type { RecordedQuote, RecordObservations } from '../quotes/record-observations.ts';
import type { Store } from '../store.ts';
import { MintWatcher } from './mint-watcher.ts';
import { POLL_GAP_MS } from './quote-poller.ts';
import { QuoteWatcher, SCAN_INTERVAL_MS } from './quote-watcher.ts';

export interface CreateWatcherOptions {
  store: Store;
  mints: Mints;
  /** Normalised URLs of the mints that the operator configured. */
  operatorMints: readonly string[];
  /** Identifies this process in leases. */
  processId: string;
  recordObservations: RecordObservations;
  /** Announces a quote to the process that watches its mint. */
  announce: (quote: IssuedQuote) => void;
  /** Called with the quotes whose state changed. */
  onNews: (news: readonly RecordedQuote[]) => void;
  pollGapMs?: number | undefined;
  scanIntervalMs?: number | undefined;
  clock: Clock;
  monotonicMs: () => number;
  log: Log;
}

/** Constructs what leases mints and watches their quotes. */
export function createWatcher(options: CreateWatcherOptions): QuoteWatcher {
  const { store, mints, operatorMints, recordObservations, clock, monotonicMs, log } = options;
  return new QuoteWatcher({
    quotes: store.watch,
    ownMints: operatorMints,
    leases: store.leases,
    processId: options.processId,
    watchMint: (mintUrl) =>
      new MintWatcher({
        mintUrl,
        quotes: store.watch,
        infos: mints.infos,
        client: mints.pollClient,
        limiter: mints.limiter,
        connect: mints.connectSocket,
        slots: mints.socketSlots,
        anomalies: mints.anomalies,
        recordObservations,
        onNews: options.onNews,
        pollGapMs: options.pollGapMs ?? POLL_GAP_MS,
        clock,
        monotonicMs,
        log,
      }),
    announce: options.announce,
    scanIntervalMs: options.scanIntervalMs ?? SCAN_INTERVAL_MS,
    monotonicMs,
    log,
  });
}
