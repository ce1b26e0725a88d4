import { expect, it } from 'vitest';
import { openLog } from '../../src/log.ts';
import type { MintWatcher } from '../../src/watcher/mint-watcher.ts';
import { QuoteWatcher, type QuoteWatcherParts } from '../../src/watcher/quote-watcher.ts';

const OWN_MINT = 'https://own.example';

it('polls the operator’s mint at each scan, however many mints of users do not answer', async () => {
  const mints = [
    ...Array.from({ length: 100 }, (_, index) => `https://${index}.example`),
    OWN_MINT,
  ];
  const polls = new Map<string, number>();
  const scanned = Promise.withResolvers<void>();
  const watcher = watch(mints, (mintUrl) => ({
    isMintSilent: true,
    tick: (mayPoll) => {
      polls.set(mintUrl, (polls.get(mintUrl) ?? 0) + (mayPoll ? 1 : 0));
      if (polls.get(OWN_MINT) === 10) {
        scanned.resolve();
      }
    },
  }));
  await watcher.start();
  await scanned.promise;
  await watcher.stop();
  expect(Math.max(...polls.values())).toBe(polls.get(OWN_MINT));
  expect(polls.get('https://0.example')).toBeLessThan(6);
});

it('reads new rows after the newest one that is left if a failover lost the latest commits', async () => {
  let nowMs = 0;
  let newestId = 50_000;
  const readAfter: number[] = [];
  const readAgain = Promise.withResolvers<void>();
  const watcher = watch([], () => ({}), {
    // A rescan is due each time.
    monotonicMs: () => {
      nowMs += 60_000;
      return nowMs;
    },
    quotes: {
      newestId: async () => newestId,
      listNew: async (afterId) => {
        readAfter.push(afterId);
        // The failover happens while rows are read.
        newestId = 40_000;
        watcher.rescan();
        if (readAfter.length === 2) {
          readAgain.resolve();
        }
        return [];
      },
    },
  });
  await watcher.start();
  await readAgain.promise;
  await watcher.stop();
  expect(readAfter.slice(0, 2)).toEqual([49_000, 39_000]);
});

/** Watches mints that are all this process's. */
function watch(
  mints: readonly string[],
  watcherOf: (mintUrl: string) => Partial<MintWatcher>,
  given: {
    quotes?: Pick<QuoteWatcherParts['quotes'], 'newestId' | 'listNew'>;
    monotonicMs?: () => number;
  } = {},
): QuoteWatcher {
  return new QuoteWatcher({
    ownMints: [OWN_MINT],
    quotes: {
      newestId: async () => 0,
      listNew: async () => [],
      watchedMints: async () => mints.map((mintUrl) => ({ mintUrl, owner: 'this process' })),
      ...given.quotes,
    },
    leases: {
      keepAlive: async () => true,
      countProcesses: async () => 1,
      release: async () => undefined,
      leave: async () => undefined,
    } as unknown as QuoteWatcherParts['leases'],
    processId: 'this process',
    watchMint: (mintUrl) =>
      ({
        isPolling: false,
        stop: async () => undefined,
        ...watcherOf(mintUrl),
      }) as unknown as MintWatcher,
    announce: () => undefined,
    scanIntervalMs: 1,
    monotonicMs: given.monotonicMs ?? (() => performance.now()),
    log: openLog('silent'),
  });
}
